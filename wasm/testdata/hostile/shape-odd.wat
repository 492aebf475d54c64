;; a shape at an odd address
;; when: run
;; want: model "hostile" version 1: step: output "x": shape: its address 12345 is not a multiple of 8
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 24)) (i32.const 12345)) local.get $in)
