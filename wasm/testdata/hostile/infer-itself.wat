;; a step that calls itself
;; when: run
;; want: model "hostile" version 1: step: infer: model "hostile" waits for this answer already: steps cannot call each other in a circle
(import "edgewise_v1" "infer" (func $infer (param i32 i32 i32) (result i32)))
(import "edgewise_v1" "last_error" (func $error (param i32 i32) (result i32)))
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(data (i32.const 0) "hostile")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(drop (call $infer (i32.const 0) (i32.const 7) (local.get $in))) (call $fail (i32.const 512) (call $error (i32.const 512) (i32.const 400))) i32.const 0)
