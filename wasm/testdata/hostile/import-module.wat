;; an import from a module that does not exist
;; when: upload
;; want: step: import "env" "system": there is no such module: a step may import from "edgewise_v1" and "wasi_snapshot_preview1"
(import "env" "system" (func (param i32) (result i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
