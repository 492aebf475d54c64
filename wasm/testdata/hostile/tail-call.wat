;; an instruction that is not part of WebAssembly 2.0
;; when: upload
;; want: module: code of function 2, byte 175: instruction 0x12 18 is not part of WebAssembly 2.0
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
return_call 0 local.get $in)
