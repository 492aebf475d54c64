;; a line outside the memory
;; when: run
;; want: model "hostile" version 1: step: import "log": argument "ptr": 100 bytes at 4294967295 leave the memory, which has 131072
(import "edgewise_v1" "log" (func $log (param i32 i32 i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call $log (i32.const 1) (i32.const -1) (i32.const 100)) local.get $in)
