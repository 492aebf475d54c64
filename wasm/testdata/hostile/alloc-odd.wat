;; an allocator that ignores alignment
;; when: run
;; want: model "hostile" version 1: step: edgewise_alloc returned 65, which is not a multiple of 64
(memory (export "memory") 1)
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) i32.const 65)
(func (export "edgewise_process") (param i32) (result i32) local.get 0)
