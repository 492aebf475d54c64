;; the trap load outside
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: out of bounds memory access in function 2
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.load (i32.const -4)))
