;; an export with the name of the counter
;; when: upload
;; want: module: export section, byte 69: export "edgewise.fuel": names that begin with "edgewise." are the host's
(global (export "edgewise.fuel") (mut i32) (i32.const 0))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
