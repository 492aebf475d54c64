;; standard output from outside the memory
;; when: run
;; want: model "hostile" version 1: step: import "fd_write": argument "iovs": 4294967295 bytes at 4294967295 leave the memory, which has 131072
(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.const 0) (i32.const -1)) (i32.store (i32.const 4) (i32.const -1)) (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 64))) local.get $in)
