;; an imported memory
;; when: upload
;; want: step: export "memory" is missing: want a memory; export "edgewise_alloc" is missing: want a func of type (i32, i32) -> (i32); export "edgewise_process" is missing: want a func of type (i32) -> (i32); import "edgewise_v1" "memory" is a memory: only functions can be imported
(import "edgewise_v1" "memory" (memory 1))
(func (export "edgewise_step_v1"))
