;; an imported global
;; when: upload
;; want: step: import "edgewise_v1" "log" is a global: only functions can be imported
(import "edgewise_v1" "log" (global (mut i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
