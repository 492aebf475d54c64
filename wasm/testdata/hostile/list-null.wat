;; 0 without a reason
;; when: run
;; want: model "hostile" version 1: step: edgewise_process returned 0 without a reason: want a list of outputs, or a call of fail
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
i32.const 0)
