;; a message outside the memory
;; when: run
;; want: model "hostile" version 1: step: import "fail": argument "ptr": 4294967295 bytes at 65536 leave the memory, which has 131072
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call $fail (i32.const 65536) (i32.const -1)) i32.const 0)
