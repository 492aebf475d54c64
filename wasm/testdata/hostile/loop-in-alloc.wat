;; an allocator that does not end
;; when: run
;; want: model "hostile" version 1: step: edgewise_alloc: stopped: it took more than 100ms
(memory (export "memory") 1)
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) loop $l br $l end unreachable)
(func (export "edgewise_process") (param i32) (result i32) local.get 0)
