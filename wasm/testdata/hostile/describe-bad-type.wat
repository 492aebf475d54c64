;; a description with a type that does not exist
;; when: upload
;; want: step: edgewise_describe: outputs[0] "x": datatype "FP128" does not exist: want a name such as FP32 or BYTES
(data (i32.const 0) "\45\00\00\00" "{\22inputs\22:[],\22outputs\22:[{\22name\22:\22x\22,\22datatype\22:\22FP128\22,\22shape\22:[1]}]}")
(func (export "edgewise_describe") (result i32) i32.const 0)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
