;; a list that leaves the memory
;; when: run
;; want: model "hostile" version 1: step: output list: 72 bytes at 131064 leave the memory, which has 131072
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.const 131064) (i32.const 2)) i32.const 131064)
