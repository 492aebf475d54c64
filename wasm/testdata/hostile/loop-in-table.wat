;; a loop behind a table
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(table 1 funcref) (elem (i32.const 0) $a) (func $a loop $l br $l end)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call_indirect (param) (i32.const 0)) local.get $in)
