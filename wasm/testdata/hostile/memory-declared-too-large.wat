;; 65536 pages from the start
;; when: upload
;; want: module: memory section, byte 25: a memory of 65536 pages of 64 KiB: at most 64 are allowed
(memory (export "memory") 65536)
(func (export "edgewise_step_v1"))
