;; a section that does not exist
;; when: upload
;; want: module: section header, byte 10: section 127 does not exist
(module binary "\00asm\01\00\00\00\7f\00")
