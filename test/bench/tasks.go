package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/step"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// Where "make steps" puts the gallery, and the demo its models and samples.
const (
	stepsDir   = "dist/steps"
	modelsDir  = "dist/demo/models"
	samplesDir = "configs/demo/samples"
)

// task is a pipeline that a box and a Python process both have: a step, a model of the box, a step; or, without an
// ensemble, one step that asks the model.
type task struct {
	words    string
	path     string // of the Python process
	model    string
	network  func(seed uint64) *onnxgen.Model
	steps    []string
	ensemble string
	input    func() (edgewise.Tensor, []byte, error) // what the box is sent, and what the Python process is
	finds    string                                  // what both must agree in
}

// between is the configuration of such a pipeline.
const between = `platform: "ensemble"
input { name: %[1]q %[2]s }
%[3]s
ensemble_scheduling {
  step { model_name: %[4]q model_version: -1 input_map { key: %[1]q value: %[1]q } output_map { key: %[5]q value: "tensor" } %[6]s }
  step { model_name: %[7]q model_version: -1 input_map { key: "input" value: "tensor" } output_map { key: "output" value: "answer" } }
  step { model_name: %[8]q model_version: -1 input_map { key: %[9]q value: "answer" } %[10]s }
}`

// ends writes the outputs of the ensemble and of its last step.
func ends(list ...[2]string) (declared, mapped string) {
	for _, o := range list {
		declared += fmt.Sprintf("output { name: %q %s }\n", o[0], o[1])
		mapped += fmt.Sprintf("output_map { key: %q value: %q } ", o[0], o[0])
	}
	return declared, mapped
}

// aClass is the outputs of the step labels.
func aClass() (declared, mapped string) {
	return ends([2]string{"label", "data_type: TYPE_STRING dims: [ -1, -1 ]"},
		[2]string{"probability", "data_type: TYPE_FP32 dims: [ -1, -1 ]"}, [2]string{"class", "data_type: TYPE_INT32 dims: [ -1, -1 ]"})
}

// measurements is the task of 64 numbers: standardise them, classify, name the likeliest classes.
func measurements() task {
	declared, mapped := aClass()
	return task{
		words: "64 measurements, standardised, a small network, labels", path: "/measure", finds: "class", model: "mlp",
		steps:   []string{"standardise", "labels"},
		network: onnxgen.MLP,
		input: func() (edgewise.Tensor, []byte, error) {
			in := noise(vector)
			in.Name = "raw"
			return in, in.Data, nil
		},
		ensemble: fmt.Sprintf(between, "raw", "data_type: TYPE_FP32 dims: [ -1, 64 ]", declared, "standardise", "features",
			"", "mlp", "labels", "scores", mapped),
	}
}

// classify is the task of an image classifier.
func classify(network func(uint64) *onnxgen.Model, words string) task {
	declared, mapped := aClass()
	return task{
		words: words, path: "/classify", finds: "class", model: "classifier", network: network,
		steps: []string{"classifier_input", "labels"}, input: photograph,
		ensemble: fmt.Sprintf(between, "image", "data_type: TYPE_STRING dims: [ 1 ]", declared, "classifier_input", "tensor",
			"", "classifier", "labels", "scores", mapped),
	}
}

// detect is the task of a detector.
func detect() task {
	declared, mapped := ends([2]string{"box", "data_type: TYPE_FP32 dims: [ -1, 4 ]"},
		[2]string{"score", "data_type: TYPE_FP32 dims: [ -1 ]"}, [2]string{"class", "data_type: TYPE_INT32 dims: [ -1 ]"})
	return task{
		words: "a JPEG, letterbox, a model that costs little, YOLO boxes", path: "/detect", finds: "class", model: "detector",
		network: detectorHead, steps: []string{"letterbox", "yolo"}, input: photograph,
		ensemble: fmt.Sprintf(between, "image", "data_type: TYPE_STRING dims: [ 1 ]", declared, "letterbox", "tensor",
			`output_map { key: "map" value: "map" }`, "detector", "yolo", "output",
			`input_map { key: "map" value: "map" } `+mapped),
	}
}

func photograph() (edgewise.Tensor, []byte, error) {
	file, err := os.ReadFile(filepath.Join(samplesDir, "face.jpg"))
	return samples.Elements("image", file), file, err
}

// listen is the task of the demo's pipeline for sound: a WAV file, and the real model asked about each of its frames.
func listen() task {
	return task{
		words: "6 s of WAV, 198 calls of Silero VAD, stretches of speech", path: "/speech", finds: "start", model: "vad",
		steps: []string{"speech"},
		input: func() (edgewise.Tensor, []byte, error) {
			file, err := os.ReadFile(filepath.Join(samplesDir, "speech.wav"))
			return samples.Elements("sound", file), file, err
		},
	}
}

// put puts a task's model, steps and pipeline into a box; what has to be built is built in dir.
func (t *task) put(b *box, dir string) error {
	if t.ensemble == "" {
		return errors.Join(putFolder(b, t.model, filepath.Join(modelsDir, t.model), "model.onnx"),
			putFolder(b, "pipeline", filepath.Join(stepsDir, t.steps[0]), "model.wasm"))
	}
	if err := b.push(t.model, "model.onnx", t.network(1).Bytes(), "max_batch_size: 0\n"); err != nil {
		return err
	}
	for _, name := range t.steps {
		module := filepath.Join(stepsDir, name, "1/model.wasm")
		source := filepath.Join("test/bench", name)
		if _, err := os.Stat(source); err == nil { // a step of this folder's
			module = filepath.Join(dir, name+".wasm")
			if err := step.Build(context.Background(), source, module, step.Toolchain{}); err != nil {
				return err
			}
		}
		data, err := os.ReadFile(module)
		if err != nil {
			return fmt.Errorf("%w (\"make steps\" builds it)", err)
		}
		if err := b.push(name, "model.wasm", data, ""); err != nil {
			return err
		}
	}
	return b.push("pipeline", "config.pbtxt", []byte(t.ensemble), "")
}

// putFolder puts a model of the demo or a step of the gallery into a box.
func putFolder(b *box, name, folder, file string) error {
	config, err := os.ReadFile(filepath.Join(folder, "config.pbtxt"))
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(folder, "1", file))
	if err != nil {
		return err
	}
	return b.push(name, file, data, string(config))
}

// scores are n values of classes.
func scores(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 5))
	all := make([]float32, n)
	for i := range all {
		all[i] = float32(10 * r.NormFloat64())
	}
	return all
}

// detectorHead makes a model that answers any picture of 640 x 640 with the same head. It costs little, so that what
// stands before and behind a model is what is compared.
func detectorHead(seed uint64) *onnxgen.Model {
	head := samples.Detections(8400, seed)
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Name: "detector",
		Nodes: []onnxgen.Node{
			{Op: "Slice", In: []string{"input", "zero", "one", "axis"}, Out: []string{"row"}},
			{
				Op: "ReduceMean", In: []string{"row"}, Out: []string{"mean"},
				Attributes: []onnxgen.Attribute{onnxgen.IntsAttribute("axes", 1, 2, 3), onnxgen.IntAttribute("keepdims", 0)},
			},
			{Op: "Mul", In: []string{"mean", "nothing"}, Out: []string{"none"}},
			{Op: "Add", In: []string{"head", "none"}, Out: []string{"output"}},
		},
		Initializers: []onnxgen.Tensor{
			onnxgen.Ints64("zero", []int64{1}, 0), onnxgen.Ints64("one", []int64{1}, 1), onnxgen.Ints64("axis", []int64{1}, 2),
			onnxgen.Floats("nothing", []int64{1}, 0), onnxgen.Floats("head", head.Shape, samples.Values(head)...),
		},
		Inputs:  []onnxgen.Value{{Name: inputName, Type: onnxgen.Float, Dims: onnxgen.Dims(1, 3, 640, 640)}},
		Outputs: []onnxgen.Value{{Name: outputName, Type: onnxgen.Float, Dims: onnxgen.Dims(head.Shape...)}},
	}}
}

// classifierHead makes a model of a thousand classes that costs little.
func classifierHead(seed uint64) *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Name: "classifier",
		Nodes: []onnxgen.Node{
			{Op: "GlobalAveragePool", In: []string{"input"}, Out: []string{"pool"}},
			{Op: "Flatten", In: []string{"pool"}, Out: []string{"mean"}},
			{Op: "MatMul", In: []string{"mean", "weights"}, Out: []string{"output"}},
		},
		Initializers: []onnxgen.Tensor{onnxgen.Floats("weights", []int64{3, 1000}, scores(3000, seed)...)},
		Inputs:       []onnxgen.Value{{Name: inputName, Type: onnxgen.Float, Dims: onnxgen.Dims(1, 3, 224, 224)}},
		Outputs:      []onnxgen.Value{{Name: outputName, Type: onnxgen.Float, Dims: onnxgen.Dims(1, 1000)}},
	}}
}
