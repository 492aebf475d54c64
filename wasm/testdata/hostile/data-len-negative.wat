;; data of -12 bytes
;; when: run
;; want: model "hostile" version 1: step: output "x": data_len is 18446744073709551604: FP32[3] takes 12 bytes
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i64.store (i32.add (local.get $in) (i32.const 32)) (i64.const -12)) local.get $in)
