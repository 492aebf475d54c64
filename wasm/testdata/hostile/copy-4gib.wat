;; memory.copy of 4 GiB
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: out of bounds memory access in function 2
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(memory.copy (i32.const 0) (i32.const 8) (i32.const -8)) local.get $in)
