;; set-up that does not end
;; when: upload
;; want: step: edgewise_step_v1: stopped: it took more than 100ms
(memory (export "memory") 1)
(func (export "edgewise_step_v1") loop $l br $l end)
(func (export "edgewise_alloc") (param i32 i32) (result i32) i32.const 64)
(func (export "edgewise_process") (param i32) (result i32) local.get 0)
