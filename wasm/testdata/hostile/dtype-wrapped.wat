;; type 267, which is 11 in eight bits
;; when: run
;; want: model "hostile" version 1: step: output "x": dtype is 267: there is no such type
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 16)) (i32.const 267)) local.get $in)
