;; a tensor without a name
;; when: run
;; want: model "hostile" version 1: step: output 0: name_len is 0: want 1 to 512 bytes
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 12)) (i32.const 0)) local.get $in)
