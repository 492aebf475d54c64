;; the trap convert nan
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: trap: invalid conversion to integer in function 2
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.trunc_f32_s (f32.div (f32.const 0) (f32.const 0))))
