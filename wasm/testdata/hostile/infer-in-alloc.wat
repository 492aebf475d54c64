;; an allocator that runs another model
;; when: run
;; want: model "hostile" version 1: step: edgewise_alloc: trap: unreachable in function 2
(import "edgewise_v1" "infer" (func $infer (param i32 i32 i32) (result i32)))
(memory (export "memory") 2) (data (i32.const 0) "good") (global $on (mut i32) (i32.const 0))
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) (if (global.get $on) (then (drop (call $infer (i32.const 0) (i32.const 4) (i32.const 4096))) unreachable)) i32.const 4096)
(func (export "edgewise_process") (param i32) (result i32) (global.set $on (i32.const 1)) (call $infer (i32.const 0) (i32.const 4) (i32.const 4096)))
