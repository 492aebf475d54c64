;; a forged list for another model
;; when: run
;; want: model "hostile" version 1: step: infer: input list: 8 bytes at 4294967288 leave the memory, which has 131072
(import "edgewise_v1" "infer" (func $infer (param i32 i32 i32) (result i32)))
(data (i32.const 0) "good")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call $infer (i32.const 0) (i32.const 4) (i32.const -8)))
