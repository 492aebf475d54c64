;; a step that calls another model for ever
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(import "edgewise_v1" "infer" (func $infer (param i32 i32 i32) (result i32)))
(data (i32.const 0) "good")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
loop $l (drop (call $infer (i32.const 0) (i32.const 4) (local.get $in))) br $l end unreachable)
