;; code that sets the counter by its index
;; when: upload
;; want: module: code of function 2, byte 183: global 1 does not exist: there are 1
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(global.set 1 (i32.const 2147483647)) local.get $in)
