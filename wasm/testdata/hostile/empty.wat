;; a file without a byte
;; when: upload
;; want: module: header, byte 0: it ends too early: 8 bytes are wanted and 0 are there
(module binary "")
