;; an imported table
;; when: upload
;; want: step: import "wasi_snapshot_preview1" "fd_write" is a table: only functions can be imported
(import "wasi_snapshot_preview1" "fd_write" (table 1 funcref))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
