;; an allocator that traps
;; when: run
;; want: model "hostile" version 1: step: edgewise_alloc: trap: unreachable in function 1
(memory (export "memory") 1)
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) unreachable)
(func (export "edgewise_process") (param i32) (result i32) local.get 0)
