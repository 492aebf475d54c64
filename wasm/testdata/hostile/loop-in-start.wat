;; a start function that does not end
;; when: upload
;; want: step: start: stopped: it took more than 100ms
(func $s loop $l br $l end)
(start $s)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
