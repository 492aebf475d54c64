;; room for a parameter outside the memory
;; when: run
;; want: model "hostile" version 1: step: import "parameter": argument "dst": 12 bytes at 4294967295 leave the memory, which has 131072
(import "edgewise_v1" "parameter" (func $p (param i32 i32 i32 i32) (result i32)))
(data (i32.const 0) "infer_models")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(drop (call $p (i32.const 0) (i32.const 12) (i32.const -1) (i32.const 100))) local.get $in)
