;; a size whose bytes overflow
;; when: run
;; want: model "hostile" version 1: step: output "x": shape: [4611686018427387905] has too many elements
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i64.store (i32.load (i32.add (local.get $in) (i32.const 24))) (i64.const 0x4000000000000001)) local.get $in)
