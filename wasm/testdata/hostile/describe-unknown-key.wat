;; a description with a key that does not exist
;; when: upload
;; want: step: edgewise_describe: json: unknown field "model"
(data (i32.const 0) "\4e\00\00\00" "{\22inputs\22:[],\22outputs\22:[{\22name\22:\22x\22,\22datatype\22:\22FP32\22,\22shape\22:[1]}],\22model\22:1}")
(func (export "edgewise_describe") (result i32) i32.const 0)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
