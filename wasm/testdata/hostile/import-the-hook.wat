;; the import that the box adds
;; when: upload
;; want: step: import "edgewise_fuel" "refill": there is no such module: a step may import from "edgewise_v1" and "wasi_snapshot_preview1"
(import "edgewise_fuel" "refill" (func (param i32) (result i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
