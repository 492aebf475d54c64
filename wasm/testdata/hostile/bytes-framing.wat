;; elements of BYTES that are longer than the data
;; when: run
;; want: model "hostile" version 1: step: output "x": data: incomplete string data, expecting string of length 1000 but only 8 bytes available
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 16)) (i32.const 13)) (i32.store (i32.load (i32.add (local.get $in) (i32.const 28))) (i32.const 1000)) local.get $in)
