;; a section that is longer than the file
;; when: upload
;; want: module: type section, byte 14: it ends too early: 4294967295 bytes are wanted and 0 are there
(module binary "\00asm\01\00\00\00\01\ff\ff\ff\ff\0f")
