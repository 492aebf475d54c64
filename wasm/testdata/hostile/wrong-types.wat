;; code that does not type
;; when: upload
;; want: module: invalid function[2] export["edgewise_process"]: cannot use i64 as result[0] type i32
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
i64.const 1)
