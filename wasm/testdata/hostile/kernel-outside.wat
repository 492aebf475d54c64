;; a picture that does not fit into the memory
;; when: run
;; want: model "hostile" version 1: step: import "image_resize": argument "src": 48000000 bytes at 0 leave the memory, which has 131072
(import "edgewise_v1" "image_resize" (func $r (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(drop (call $r (i32.const 0) (i32.const 4000) (i32.const 4000) (i32.const 0) (i32.const 10) (i32.const 10) (i32.const 3) (i32.const 1))) local.get $in)
