;; a description that is not JSON
;; when: upload
;; want: step: edgewise_describe: invalid character 'h' looking for beginning of value
(data (i32.const 0) "\05\00\00\00" "hello")
(func (export "edgewise_describe") (result i32) i32.const 0)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
