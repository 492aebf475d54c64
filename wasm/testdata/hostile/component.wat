;; a component
;; when: upload
;; want: module: header, byte 0: version 0d000100 is not a core module of version 1 (a component is not one)
(module binary "\00asm\0d\00\01\00")
