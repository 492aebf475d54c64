;; a loop in a function of a function
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(func $a call $b) (func $b loop $l br $l end)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
call $a local.get $in)
