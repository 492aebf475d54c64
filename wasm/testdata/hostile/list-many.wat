;; a list of 4 billion tensors
;; when: run
;; want: model "hostile" version 1: step: output list: count is 4294967295: at most 256 tensors are allowed
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.const 8) (i32.const -1)) i32.const 8)
