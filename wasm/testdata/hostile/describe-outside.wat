;; a description outside the memory
;; when: upload
;; want: step: edgewise_describe: its result 4294967295 leaves the memory, which has 131072 bytes
(func (export "edgewise_describe") (result i32) i32.const -1)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
