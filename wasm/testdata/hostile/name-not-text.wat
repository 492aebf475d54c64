;; a name that is not UTF-8
;; when: run
;; want: model "hostile" version 1: step: output 0: name: it is not UTF-8
(data (i32.const 0) "\ff")
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(i32.store (i32.add (local.get $in) (i32.const 8)) (i32.const 0)) local.get $in)
