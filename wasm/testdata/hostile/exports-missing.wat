;; a module without exports
;; when: upload
;; want: step: export "memory" is missing: want a memory; export "edgewise_step_v1" is missing: want a func of type () -> (); export "edgewise_alloc" is missing: want a func of type (i32, i32) -> (i32); export "edgewise_process" is missing: want a func of type (i32) -> (i32)
(func)
