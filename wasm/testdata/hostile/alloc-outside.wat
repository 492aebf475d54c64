;; an allocator that points to the end of the memory
;; when: run
;; want: model "hostile" version 1: step: edgewise_alloc returned 65472: 76 bytes there leave the memory, which has 65536
(memory (export "memory") 1)
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) i32.const 65472)
(func (export "edgewise_process") (param i32) (result i32) local.get 0)
