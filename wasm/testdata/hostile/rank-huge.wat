;; 4 billion dimensions
;; when: run
;; want: model "hostile" version 1: step: output "x": rank is 4294967295: at most 32 dimensions are allowed
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 20)) (i32.const -1)) local.get $in)
