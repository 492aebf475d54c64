;; memory.fill of all memory, again and again
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
(drop (memory.grow (i32.const 62))) loop $l (memory.fill (i32.const 0) (i32.const 0) (i32.const 4194304)) br $l end unreachable)
