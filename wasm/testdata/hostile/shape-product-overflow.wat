;; sizes whose product overflows
;; when: run
;; want: model "hostile" version 1: step: output "x": shape: [4294967296,4294967296] has too many elements
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 20)) (i32.const 2)) (i64.store (i32.const 1024) (i64.const 0x100000000)) (i64.store (i32.const 1032) (i64.const 0x100000000)) (i32.store (i32.add (local.get $in) (i32.const 24)) (i32.const 1024)) local.get $in)
