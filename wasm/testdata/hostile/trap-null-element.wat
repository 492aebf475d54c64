;; a call through an empty element
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: invalid table access in function 2
(table 2 funcref)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call_indirect (param) (i32.const 1)) local.get $in)
