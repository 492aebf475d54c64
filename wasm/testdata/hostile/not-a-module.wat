;; a program of another machine
;; when: upload
;; want: module: header, byte 0: this is not a WebAssembly module: it begins with "\x7fELF"
(module binary "\7fELF\02\01\01\00")
