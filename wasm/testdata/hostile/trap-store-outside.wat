;; the trap store outside
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: out of bounds memory access in function 2
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.const -4) (i32.const 1)) local.get $in)
