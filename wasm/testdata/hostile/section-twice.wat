;; a section that is there twice
;; when: upload
;; want: module: type section, byte 14: it stands in the wrong place, or twice
(module binary "\00asm\01\00\00\00\01\01\00\01\01\00")
