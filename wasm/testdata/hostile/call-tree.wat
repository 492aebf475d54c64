;; a tree of calls without a loop: 2 to the 40th calls
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(func $f (param $n i32) (if (local.get $n) (then (call $f (i32.sub (local.get $n) (i32.const 1))) (call $f (i32.sub (local.get $n) (i32.const 1))))))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call $f (i32.const 40)) local.get $in)
