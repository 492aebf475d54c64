;; a step that calls itself for ever
;; when: run
;; want: model "hostile" version 1: step: model "hostile" version 1: step: model "hostile" version 1: step: model "hostile" version 1: step: model "hostile" version 1: step: infer: more than 4 steps call each other
(import "edgewise_v1" "infer" (func $infer (param i32 i32 i32) (result i32)))
(import "edgewise_v1" "last_error" (func $error (param i32 i32) (result i32)))
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(data (i32.const 0) "hostile")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(drop (call $infer (i32.const 0) (i32.const 7) (local.get $in))) (call $fail (i32.const 512) (call $error (i32.const 512) (i32.const 400))) i32.const 0)
