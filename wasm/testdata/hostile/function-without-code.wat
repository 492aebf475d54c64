;; more functions than bodies
;; when: upload
;; want: module: 1 functions are declared and 0 have code
(type (func)) (raw "\03\02\01\00")
