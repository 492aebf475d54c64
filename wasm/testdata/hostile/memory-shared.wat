;; a shared memory
;; when: upload
;; want: module: memory section, byte 12: limits of form 3: shared and 64-bit memories are not allowed
(memory (export "memory") 1 2 shared)
