;; exports with other types
;; when: upload
;; want: step: export "edgewise_step_v1" has the type (i32) -> (): want () -> (); export "edgewise_alloc" has the type () -> (i32): want (i32, i32) -> (i32); export "edgewise_process" has the type (i64) -> (i64): want (i32) -> (i32); export "edgewise_describe" has the type () -> (): want () -> (i32)
(memory (export "memory") 1)
(func (export "edgewise_step_v1") (param i32)) (func (export "edgewise_alloc") (result i32) i32.const 0) (func (export "edgewise_process") (param i64) (result i64) local.get 0) (func (export "edgewise_describe"))
