;; a start function that traps
;; when: upload
;; want: step: start: trap: unreachable in function s
(func $s unreachable) (start $s)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
