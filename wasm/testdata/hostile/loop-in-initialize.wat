;; a reactor that does not end
;; when: upload
;; want: step: _initialize: stopped: it took more than 100ms
(func (export "_initialize") loop $l br $l end)
(include "prelude")
(func (export "edgewise_process") (param $in i32) (result i32) 
local.get $in)
