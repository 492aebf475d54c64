package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/wat"
)

const stepTime = 500 * time.Millisecond

// emptyStep returns its input.
const emptyStep = `
(memory (export "memory") 2)
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) i32.const 4096)
(func (export "edgewise_process") (param i32) (result i32) local.get 0)
(func (export "edgewise_describe") (result i32) i32.const 100)
(data (i32.const 100) "%s" "%s")`

// emptyDescription is what it says of itself. The output has the input's name, since it is the input.
const emptyDescription = `{\22inputs\22:[{\22name\22:\22x\22,\22datatype\22:\22FP32\22,\22shape\22:[1,64]}],` +
	`\22outputs\22:[{\22name\22:\22x\22,\22datatype\22:\22FP32\22,\22shape\22:[1,64]}]}`

// stepFigures holds a step that does nothing, through REST, against an ONNX model that does nothing in the same
// process.
func stepFigures(clients int) func(*run) {
	return func(r *run) {
		m := r.machine()
		m.single = clients == 1
		b := r.startBuild(builtProgram, serverCore, nil, filepath.Join(r.dir, "data"), "engine.isolation=none")
		length := len(strings.ReplaceAll(emptyDescription, `\22`, `"`))
		module, err := wat.Assemble(fmt.Sprintf(emptyStep, fmt.Sprintf(`\%02x\%02x\00\00`, length&255, length>>8), emptyDescription))
		r.check(err)
		r.check(b.push("step", "model.wasm", module, ""))
		r.push(b, "onnx", onnxgen.Identity(edgewise.FP32, onnxgen.Dims(1, 64)...), "")
		in := noise(vector)
		in.Name = "x"
		var sides []side
		for _, name := range []string{"step", "onnx"} {
			sides = append(sides, r.clients(b, name, in, kserve.Binary, clientCore).side("identity, "+name, clients, stepTime))
		}
		all := m.interleave(sides)
		r.latencies("an identity of 64 floats through REST, "+count(clients), "us", sides, all)
		ratio := all[1].over(all[0])
		if clients == 1 {
			ratio = all[1].quicker(all[0])
		}
		r.report(atMost("empty step / identity on ONNX Runtime in the server's process, "+count(clients), ratio, 1.15, "x",
			fmt.Sprintf("%.0f/s against %.0f/s", all[0].rate(), all[1].rate())))
	}
}
