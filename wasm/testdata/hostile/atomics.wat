;; an atomic instruction
;; when: upload
;; want: module: code of function 2, byte 175: instruction 0xfe 254 is not part of WebAssembly 2.0
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
atomic.fence local.get $in)
