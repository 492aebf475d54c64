;; a table of a million elements
;; when: upload
;; want: module: table section, byte 39: tables of 1000000 elements: at most 200000 are allowed
(table 1000000 funcref)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
