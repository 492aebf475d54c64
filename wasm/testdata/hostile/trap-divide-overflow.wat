;; the trap divide overflow
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: integer overflow in function 2
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.div_s (i32.const 0x80000000) (i32.const -1)))
