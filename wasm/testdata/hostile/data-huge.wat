;; a data segment larger than the memory
;; when: upload
;; want: step: start: trap: data[0]: out of bounds memory access
(data (i32.const 0) "(repeat 200000 \00)")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
