;; an output that the model does not declare
;; when: run
;; want: model "hostile" version 1: step: output "y": the model declares no such output
(data (i32.const 0) "y")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 8)) (i32.const 0)) local.get $in)
