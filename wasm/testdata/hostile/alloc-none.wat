;; an allocator without memory
;; when: run
;; want: model "hostile" version 1: step: edgewise_alloc has no memory for 76 bytes of tensors: the memory has 65536 of at most 4194304
(memory (export "memory") 1)
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) i32.const 0)
(func (export "edgewise_process") (param i32) (result i32) local.get 0)
