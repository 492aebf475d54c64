;; it takes all memory it may have, then more
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: out of bounds memory access in function 2
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1))) end (i32.store (i32.mul (memory.size) (i32.const 65536)) (i32.const 1)) local.get $in)
