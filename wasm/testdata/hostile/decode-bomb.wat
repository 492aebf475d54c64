;; a PNG file that says it has 32768 x 32768 pixels
;; when: run
;; want: model "hostile" version 1: step: image_decode: a picture of 32768 x 32768 pixels: at most 16777216 pixels are allowed
(import "edgewise_v1" "image_decode" (func $d (param i32 i32 i32 i32 i32 i32) (result i32)))
(import "edgewise_v1" "last_error" (func $error (param i32 i32) (result i32)))
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(data (i32.const 0) "\89PNG\0d\0a\1a\0a\00\00\00\0dIHDR\00\00\80\00\00\00\80\00\08\00\00\00\00\e1\17\fc\a3")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(drop (call $d (i32.const 0) (i32.const 33) (i32.const 0) (i32.const 1) (i32.const 4096) (i32.const 1000))) (call $fail (i32.const 512) (call $error (i32.const 512) (i32.const 200))) i32.const 0)
