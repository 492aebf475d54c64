;; locals whose count overflows
;; when: upload
;; want: module: code of function 0, byte 125: 4294967295 locals: at most 5000 are allowed
(func $f (locals 4294967295 i64) (locals 4294967295 i64))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
call $f local.get $in)
