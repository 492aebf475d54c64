;; a list without the output
;; when: run
;; want: model "hostile" version 1: step: output "x" is missing
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
i32.const 8)
