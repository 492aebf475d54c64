;; a name of 4 GiB
;; when: run
;; want: model "hostile" version 1: step: output 0: name_len is 4294967295: want 1 to 512 bytes
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 12)) (i32.const -1)) local.get $in)
