;; a kernel that is called for ever
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(import "edgewise_v1" "softmax" (func $s (param i32 i32 i32 i32) (result i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
loop $l (drop (call $s (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 30000))) br $l end unreachable)
