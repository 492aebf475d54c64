;; two functions that call each other, through a table
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: calls nest too deep: more than 16000, or fewer large ones
(type $t (func)) (table 2 funcref) (elem (i32.const 0) $a $b) (func $a (call_indirect (type $t) (i32.const 1))) (func $b (call_indirect (type $t) (i32.const 0)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
call $a local.get $in)
