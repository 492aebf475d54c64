;; memory.init with lengths that leave the segment
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: out of bounds memory access in function 2
(data $d "abc")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(memory.init $d (i32.const 0) (i32.const 2) (i32.const 2)) local.get $in)
