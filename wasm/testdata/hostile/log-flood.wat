;; a log that does not end
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(import "edgewise_v1" "log" (func $log (param i32 i32 i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
loop $l (call $log (i32.const 3) (i32.const 0) (i32.const 131072)) br $l end unreachable)
