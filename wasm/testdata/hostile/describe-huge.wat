;; a description of 4 GiB
;; when: upload
;; want: step: edgewise_describe: length is 4294967295: at most 65536 bytes are allowed
(func (export "edgewise_describe") (result i32) (i32.store (i32.const 0) (i32.const -1)) i32.const 0)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
