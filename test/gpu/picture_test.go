//go:build gpustub

package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
	"github.com/edgewise-ai/edgewise/test/hostile"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/wat"
)

// painter is a step whose output t, three planes of 2x1 pixels, is a picture of 2x2 pixels, by image_tensor.
const painter = `
(import "edgewise_v1" "image_tensor" (func $tensor (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
` + hostile.Prelude + `
(data (i32.const 1024) "\01\00\00\00\00\00\00\00"
  "\50\04\00\00\01\00\00\00\0b\00\00\00\04\00\00\00\58\04\00\00\00\20\00\00\18\00\00\00\00\00\00\00")
(data (i32.const 1104) "t")
(data (i32.const 1112) "\01\00\00\00\00\00\00\00\03\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\02\00\00\00\00\00\00\00")
(data (i32.const 2048) "\00\01\02\03\04\05\06\07\08\09\0a\0b")
(func (export "edgewise_process") (param $in i32) (result i32)
  (if (call $tensor (i32.const 2048) (i32.const 2) (i32.const 2) (i32.const 0) (i32.const 8192) (i32.const 2)
    (i32.const 1) (i32.const 11) (i32.const 0) (i32.const 0)) (then unreachable))
  i32.const 1024)`

// TestPicturesOfAPipelineAreMadeWhereTheirModelSits runs a step that makes a tensor of a picture in front of a model:
// on the GPU the device makes the tensor, and the box counts it; with the same model on the CPU, or with pictures
// disabled, the step's end does.
func TestPicturesOfAPipelineAreMadeWhereTheirModelSits(t *testing.T) {
	module, err := wat.Assemble(painter)
	if err != nil {
		t.Fatal(err)
	}
	step := `platform: "wasm" input { name: "x" data_type: TYPE_FP32 dims: [1] } output { name: "t" ` +
		`data_type: TYPE_FP32 dims: [-1, 3, 1, 2] }` + "\n"
	pipeline := func(net string) string {
		return `platform: "ensemble" input { name: "x" data_type: TYPE_FP32 dims: [1] } output { name: "y"
  data_type: TYPE_FP32 dims: [-1, 3, 1, 2] }
ensemble_scheduling { step { model_name: "paint" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "t" value: "t" } }
step { model_name: "` + net + `" model_version: -1 input_map { key: "x" value: "t" } output_map { key: "y" value: "y" } } }` + "\n"
	}
	// The stand-ins compute nothing, so a trial could not find that rows are independent: the configuration says it.
	const batches = "max_batch_size: 4\ndynamic_batching {}\n"
	models := repository(t, map[string]string{
		"net_gpu": batches + "instance_group { kind: KIND_GPU }\n",
		"net_cpu": batches + "instance_group { kind: KIND_CPU }\n",
		"net_off": batches + "instance_group { kind: KIND_GPU }\nparameters { key: \"gpu_pictures\" value { string_value: \"off\" } }\n",
	}, func(string) *onnxgen.Model {
		return onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Size: -1}, onnxgen.Dim{Size: 3}, onnxgen.Dim{Size: 1},
			onnxgen.Dim{Size: 2})
	})
	for path, content := range map[string]string{
		"paint/1/model.wasm": string(module), "paint/config.pbtxt": step,
		"pipe_gpu/config.pbtxt": pipeline("net_gpu"), "pipe_cpu/config.pbtxt": pipeline("net_cpu"), "pipe_off/config.pbtxt": pipeline("net_off"),
	} {
		path = filepath.Join(models, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pipe_gpu", "pipe_cpu", "pipe_off"} {
		if err := os.MkdirAll(filepath.Join(models, name, "1"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, control := driver(t)
	control.Set(fakegpu.Memory, 8<<30)
	b, log := start(t, path, models, "pipe_gpu", "pipe_cpu", "pipe_off")
	for _, model := range []string{"pipe_gpu", "pipe_cpu", "pipe_off"} {
		for range 3 {
			q, err := newQuery(model, edgewise.Tensor{
				Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1},
				Data: make([]byte, 4),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.infer(q); err != nil {
				t.Fatalf("%s: %v\n%s", model, err, log)
			}
		}
	}
	page, err := b.metrics()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page, `edgewise_gpu_pictures_total{model="net_gpu",version="1"} 3`) {
		t.Error("the device made no tensors of pictures")
	}
	if n := strings.Count(page, "edgewise_gpu_pictures_total{"); n != 1 {
		t.Errorf("%d models are said to", n)
	}
	if _, err := b.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
