;; a description that does not end
;; when: upload
;; want: step: edgewise_describe: stopped: it took more than 100ms
(func (export "edgewise_describe") (result i32) loop $l br $l end unreachable)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
