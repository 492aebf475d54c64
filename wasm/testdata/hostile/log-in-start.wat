;; a start function that calls the box with a forged pointer
;; when: upload
;; want: step: import "log": argument "ptr": 4294967295 bytes at 4294967295 leave the memory, which has 131072
(import "edgewise_v1" "log" (func $log (param i32 i32 i32)))
(func $s (call $log (i32.const 1) (i32.const -1) (i32.const -1))) (start $s)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
