;; a list at an odd address
;; when: run
;; want: model "hostile" version 1: step: output list: its address 9 is not a multiple of 8
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
i32.const 9)
