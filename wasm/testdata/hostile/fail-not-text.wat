;; a message that is not UTF-8
;; when: run
;; want: model "hostile" version 1: step: a�b
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(data (i32.const 0) "a\ff\feb")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call $fail (i32.const 0) (i32.const 4)) i32.const 0)
