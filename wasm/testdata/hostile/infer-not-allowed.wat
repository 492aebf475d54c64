;; a model that is not on the list
;; when: run
;; want: model "hostile" version 1: step: infer: model "admin" is not on the list of the parameter "infer_models"
(import "edgewise_v1" "infer" (func $infer (param i32 i32 i32) (result i32)))
(import "edgewise_v1" "last_error" (func $error (param i32 i32) (result i32)))
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(data (i32.const 0) "admin")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(drop (call $infer (i32.const 0) (i32.const 5) (local.get $in))) (call $fail (i32.const 512) (call $error (i32.const 512) (i32.const 200))) i32.const 0)
