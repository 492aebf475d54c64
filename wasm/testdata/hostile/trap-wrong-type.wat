;; a call through an element of another type
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: indirect call type mismatch in function 3
(table 1 funcref) (elem (i32.const 0) $f) (func $f (param i64))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call_indirect (param) (i32.const 0)) local.get $in)
