;; the trap unreachable
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: unreachable in function 2
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
unreachable)
