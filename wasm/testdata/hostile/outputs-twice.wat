;; an output that is there twice
;; when: run
;; want: model "hostile" version 1: step: output "x": name: another tensor has it
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 

(memory.copy (i32.const 1032) (i32.add (local.get $in) (i32.const 8)) (i32.const 32)) (memory.copy (i32.const 1064) (i32.add (local.get $in) (i32.const 8)) (i32.const 32))
(i32.store (i32.const 1024) (i32.const 2)) i32.const 1024)
