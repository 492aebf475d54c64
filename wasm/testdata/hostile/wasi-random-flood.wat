;; random numbers for ever
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
loop $l (drop (call $random (i32.const 0) (i32.const 131072))) br $l end unreachable)
