;; a start function that runs another model
;; when: run
;; want: model "hostile" version 1: step: infer: only edgewise_process may call it
(import "edgewise_v1" "infer" (func $infer (param i32 i32 i32) (result i32)))
(import "edgewise_v1" "last_error" (func $error (param i32 i32) (result i32)))
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(global $e (mut i32) (i32.const 0)) (func $s (drop (call $infer (i32.const 0) (i32.const 4) (i32.const 8))) (global.set $e (call $error (i32.const 0) (i32.const 200)))) (start $s)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call $fail (i32.const 0) (global.get $e)) i32.const 0)
