;; a table that grows for ever
;; when: run
;; want: model "hostile" version 1: step: edgewise_process: stopped: it took more than 100ms
(table 1 funcref)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
loop $l (drop (table.grow 0 (ref.null func) (i32.const 100000))) br $l end unreachable)
