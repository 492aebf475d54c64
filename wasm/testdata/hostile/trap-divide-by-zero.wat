;; the trap divide by zero
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: integer divide by zero in function 2
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.div_u (local.get $in) (i32.const 0)))
