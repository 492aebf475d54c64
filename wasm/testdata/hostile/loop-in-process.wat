;; a request that does not end
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
loop $l br $l end unreachable)
