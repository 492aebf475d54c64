;; a negative size
;; when: run
;; want: model "hostile" version 1: step: output "x": shape: dimension 0 is -5
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i64.store (i32.load (i32.add (local.get $in) (i32.const 24))) (i64.const -5)) local.get $in)
