;; a memory of 64 bits
;; when: upload
;; want: module: memory section, byte 12: limits of form 4: shared and 64-bit memories are not allowed
(module binary "\00asm\01\00\00\00\05\03\01\04\01")
