;; a count of types that cannot be there
;; when: upload
;; want: module: type section, byte 12: 9999 types cannot fit into the 1 bytes that are left
(module binary "\00asm\01\00\00\00\01\03\8f\4e\60")
