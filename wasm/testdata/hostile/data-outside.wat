;; a data segment outside the memory
;; when: upload
;; want: step: start: trap: data[0]: out of bounds memory access
(data (i32.const 2147483647) "x")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
