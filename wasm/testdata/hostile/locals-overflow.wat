;; locals whose count overflows
;; when: upload
;; want: module: code of function 0, byte 29: 4294967295 locals: at most 5000 are allowed
(module binary "\00asm\01\00\00\00\01\04\01\60\00\00\03\02\01\00"
  "\0a\10\01\0e\02\ff\ff\ff\ff\0f\7e\ff\ff\ff\ff\0f\7e\0b")
