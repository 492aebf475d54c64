;; code that takes what is not there
;; when: upload
;; want: module: invalid function[2] export["edgewise_process"]: cannot pop the 1st operand for i32.add: i32 missing
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
i32.add)
