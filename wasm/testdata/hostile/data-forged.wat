;; data outside the memory
;; when: run
;; want: model "hostile" version 1: step: output "x": data: 12 bytes at 4294967292 leave the memory, which has 131072
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 28)) (i32.const -4)) local.get $in)
