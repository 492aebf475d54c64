// Package tuned holds what a tuning chooses against the best of all combinations of the same settings, measured by clients
// in the same run.
package tuned

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// files are those of one version, by their paths.
type files map[string][]byte

// stored is a model with its files.
type stored struct {
	name  string
	files files
}

// subject is what is tuned.
type subject struct {
	name      string
	models    func() ([]stored, error) // the last one is asked; of an ensemble behind its parts
	request   func() edgewise.Tensor
	more      []edgewise.Tensor // of the request
	sequences bool
}

// configFile is the configuration of a version.
const configFile = "config.pbtxt"

// The shapes of requests to the generated networks.
var (
	vector  = edgewise.Shape{1, 64}
	picture = edgewise.Shape{1, 3, 224, 224}
)

// subjects are the six models and two ensembles of the table.
func subjects() []subject {
	return []subject{
		{name: "mlp", models: one(generated(onnxgen.MLP), "max_batch_size: 32\ndynamic_batching { }\n"), request: noise("input", vector)},
		{name: "mobilenet", models: one(generated(onnxgen.MobileNetV2), "max_batch_size: 8\n"), request: noise("input", picture)},
		{name: "resnet", models: one(generated(onnxgen.ResNet50), "max_batch_size: 4\n"), request: noise("input", picture)},
		{name: "ocr-detect", models: demo("ocr_detect"), request: noise("x", edgewise.Shape{1, 3, 320, 320})},
		{name: "ocr-recognise", models: demo("ocr_recognize"), request: noise("x", edgewise.Shape{1, 3, 48, 320})},
		{
			name: "vad", models: demo("vad_stream"), request: noise("input", edgewise.Shape{1, 576}), sequences: true,
			more: []edgewise.Tensor{rate()},
		},
		{
			name: "two-networks", models: pair(onnxgen.MobileNetV2, onnxgen.MobileNetV2Wide, "[ 3, 224, 224 ]", 1000),
			request: noise("x", picture),
		},
		{name: "two-mlps", models: pair(onnxgen.MLP, onnxgen.MLP, "[ 64 ]", 10), request: noise("x", vector)},
	}
}

// rate is the input of voice activity detection that says how many samples a second has.
func rate() edgewise.Tensor {
	return edgewise.Tensor{Name: "sr", Type: edgewise.Int64, Shape: edgewise.Shape{1}, Data: binary.LittleEndian.AppendUint64(nil, 16000)}
}

func generated(make func(seed uint64) *onnxgen.Model) func() ([]byte, error) {
	return func() ([]byte, error) { return make(1).Bytes(), nil }
}

// one is a single model.
func one(file func() ([]byte, error), config string) func() ([]stored, error) {
	return func() ([]stored, error) {
		data, err := file()
		return []stored{{"model", files{"model.onnx": data, configFile: []byte(config)}}}, err
	}
}

// demo is one of the demonstration's models, with its configuration.
func demo(name string) func() ([]stored, error) {
	return func() ([]stored, error) {
		dir, of := filepath.Join("dist/demo/models", name), files{}
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			inside, _ := filepath.Rel(dir, path)
			of[strings.TrimPrefix(inside, "1/")] = data
			return err
		})
		return []stored{{name, of}}, err
	}
}

// pair is an ensemble of two models that read the same input and run at the same time.
func pair(first, second func(seed uint64) *onnxgen.Model, dims string, answers int) func() ([]stored, error) {
	return func() ([]stored, error) {
		config, both := "max_batch_size: 8\n", fmt.Sprintf(`platform: "ensemble"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: %s }
output { name: "a" data_type: TYPE_FP32 dims: [ %d ] }
output { name: "b" data_type: TYPE_FP32 dims: [ %d ] }
ensemble_scheduling {
  step { model_name: "first" model_version: -1 input_map { key: "input" value: "x" } output_map { key: "output" value: "a" } }
  step { model_name: "second" model_version: -1 input_map { key: "input" value: "x" } output_map { key: "output" value: "b" } }
}
`, dims, answers, answers)
		return []stored{
			{"first", files{"model.onnx": first(1).Bytes(), configFile: []byte(config)}},
			{"second", files{"model.onnx": second(2).Bytes(), configFile: []byte(config)}},
			{"both", files{configFile: []byte(both)}},
		}, nil
	}
}

// noise makes a random FP32 tensor.
func noise(name string, shape edgewise.Shape) func() edgewise.Tensor {
	return func() edgewise.Tensor {
		r := rand.New(rand.NewPCG(1, 2))
		n, _ := shape.Elements()
		data := make([]byte, 0, 4*n)
		for range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(r.Float32()))
		}
		return edgewise.Tensor{Name: name, Type: edgewise.FP32, Shape: shape, Data: data}
	}
}

// upload sends files as one version.
func upload(model string, of files) edgewise.Upload {
	left := slices.Sorted(maps.Keys(of))
	return edgewise.Upload{Model: model, Size: -1, Next: func() (string, int64, io.Reader, error) {
		if len(left) == 0 {
			return "", 0, nil, io.EOF
		}
		path := left[0]
		left = left[1:]
		return path, int64(len(of[path])), strings.NewReader(string(of[path])), nil
	}}
}

// with returns the files with another configuration.
func (f files) with(config []byte) files {
	other := maps.Clone(f)
	other[configFile] = config
	return other
}
