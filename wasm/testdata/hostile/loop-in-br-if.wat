;; a loop that a br_if closes, with work in it
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) (local $x i32)
loop $l (local.set $x (i32.add (local.get $x) (i32.const 1))) (br_if $l (i32.const 1)) end local.get $in)
