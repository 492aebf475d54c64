;; a number of six bytes
;; when: upload
;; want: module: section header, byte 14: a number takes more than 5 bytes
(module binary "\00asm\01\00\00\00\01\80\80\80\80\80\00")
