;; a type that the model does not declare
;; when: run
;; want: model "hostile" version 1: step: output "x": dtype is INT32: the model declares FP32
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 16)) (i32.const 8)) local.get $in)
