;; two outputs that share bytes
;; when: run
;; want: model "hostile" version 1: step: output "y": data: they overlap those of "x"
(data (i32.const 0) "x" "y")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 

(memory.copy (i32.const 1032) (i32.add (local.get $in) (i32.const 8)) (i32.const 32)) (memory.copy (i32.const 1064) (i32.add (local.get $in) (i32.const 8)) (i32.const 32))
(i32.store (i32.const 1024) (i32.const 2)) (i32.store (i32.const 1064) (i32.const 1)) (i32.store (i32.const 1084) (i32.add (i32.load (i32.const 1084)) (i32.const 8))) i32.const 1024)
