;; an import that does not exist
;; when: upload
;; want: step: import "edgewise_v1" "exec": there is no such function
(import "edgewise_v1" "exec" (func (param i32) (result i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
