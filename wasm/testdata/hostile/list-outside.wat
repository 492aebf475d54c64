;; a list outside the memory
;; when: run
;; want: model "hostile" version 1: step: output list: 8 bytes at 4294967288 leave the memory, which has 131072
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
i32.const -8)
