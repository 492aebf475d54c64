;; more bodies than functions
;; when: upload
;; want: module: code section, byte 11: 1 function bodies for 0 functions
(module binary "\00asm\01\00\00\00\0a\04\01\02\00\0b")
