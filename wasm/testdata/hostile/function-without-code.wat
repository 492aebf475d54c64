;; more functions than bodies
;; when: upload
;; want: module: 1 functions are declared and 0 have code
(module binary "\00asm\01\00\00\00\01\04\01\60\00\00\03\02\01\00")
