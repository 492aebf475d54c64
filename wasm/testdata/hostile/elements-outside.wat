;; a call of what an element segment puts outside its table
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: invalid table access in function 3
(table 1 funcref) (elem (i32.const 5) $f) (func $f)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call_indirect (param) (i32.const 5)) local.get $in)
