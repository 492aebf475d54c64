;; a rank that the model does not declare
;; when: run
;; want: model "hostile" version 1: step: output "x": shape is []: the model declares [-1]
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 20)) (i32.const 0)) (i64.store (i32.add (local.get $in) (i32.const 32)) (i64.const 4)) local.get $in)
