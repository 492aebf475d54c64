;; two memories
;; when: upload
;; want: module: memory section, byte 11: 2 memories: at most 1 are allowed
(memory (export "memory") 1) (memory 1)
