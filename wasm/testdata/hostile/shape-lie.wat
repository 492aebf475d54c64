;; a shape that is larger than the data
;; when: run
;; want: model "hostile" version 1: step: output "x": data_len is 12: FP32[4] takes 16 bytes
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i64.store (i32.load (i32.add (local.get $in) (i32.const 24))) (i64.const 4)) local.get $in)
