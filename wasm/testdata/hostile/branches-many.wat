;; a br_table with 20000 labels
;; when: upload
;; want: module: code of function 2, byte 187: 19999 labels: at most 10000 are allowed
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
block $b (br_table (repeat 20000 $b) (local.get $in)) end local.get $in)
