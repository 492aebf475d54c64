;; a list with a reserved field
;; when: run
;; want: model "hostile" version 1: step: output list: reserved is 7: want 0
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.const 12) (i32.const 7)) i32.const 8)
