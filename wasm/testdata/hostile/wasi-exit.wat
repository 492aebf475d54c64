;; a step that ends the process
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: it called proc_exit(0)
(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(call $exit (i32.const 0)) local.get $in)
