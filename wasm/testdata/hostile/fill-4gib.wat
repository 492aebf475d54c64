;; memory.fill of 4 GiB
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: out of bounds memory access in function 2
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(memory.fill (i32.const 0) (i32.const 1) (i32.const -1)) local.get $in)
