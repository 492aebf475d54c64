;; calls without a back edge, one inside the other
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: calls nest too deep: more than 16000, or fewer large ones
(func $r call $r)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
call $r local.get $in)
