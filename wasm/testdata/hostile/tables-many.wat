;; seventeen tables
;; when: upload
;; want: module: table section, byte 34: 17 tables: at most 16 are allowed
(table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) (table 1 funcref) 
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
