;; data of 2 to the 32nd bytes and 12
;; when: run
;; want: model "hostile" version 1: step: output "x": data_len is 4294967308: FP32[3] takes 12 bytes
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i64.store (i32.add (local.get $in) (i32.const 32)) (i64.const 0x10000000c)) local.get $in)
