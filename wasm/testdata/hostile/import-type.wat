;; an import with another type
;; when: upload
;; want: step: import "edgewise_v1" "log" has the type (i64, i64) -> (i64): want (i32, i32, i32) -> ()
(import "edgewise_v1" "log" (func (param i64 i64) (result i64)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
