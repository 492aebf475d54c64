;; a function with a million locals
;; when: upload
;; want: module: code of function 0, byte 123: 1000000 locals: at most 5000 are allowed
(func $f (local (repeat 1000000 i64)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
call $f local.get $in)
