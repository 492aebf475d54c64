package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// pythonProgram is the interpreter that Debian's numpy and Pillow belong to.
const pythonProgram = "/usr/bin/python3"

// startPython starts test/bench/python, which asks a box for its models, and returns its address.
func startPython(b *box) (*process, string, error) {
	cmd := exec.Command(pythonProgram, "test/bench/python/server.py", b.address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	p, err := start(anywhere, cmd)
	if err != nil {
		return nil, "", err
	}
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, "", fmt.Errorf("the Python process did not start (\"make python\" installs numpy and Pillow): %w", err)
	}
	return p, "127.0.0.1:" + strings.TrimSpace(port), nil
}

// task is a pipeline that both sides have: a step, a model of the box, a step.
type task struct {
	path     string // of the Python process
	model    string
	network  func() *onnxgen.Model
	steps    []string
	ensemble string
	words    string
	goal     float64 // 0: none
}

// between names the tensors of a pipeline of three steps.
const between = `platform: "ensemble"
input { name: "image" data_type: TYPE_STRING dims: [ 1 ] }
%s
ensemble_scheduling {
  step { model_name: "%s" model_version: -1 input_map { key: "image" value: "image" } output_map { key: "tensor" value: "tensor" } %s }
  step { model_name: "%s" model_version: -1 input_map { key: "input" value: "tensor" } output_map { key: "output" value: "answer" } }
  step { model_name: "%s" model_version: -1 input_map { key: "%s" value: "answer" } %s }
}`

// outputs writes the ends of the ensemble: its outputs, and the last step's.
func outputs(list ...[2]string) (declared, mapped string) {
	for _, o := range list {
		declared += fmt.Sprintf("output { name: %q %s }\n", o[0], o[1])
		mapped += fmt.Sprintf("output_map { key: %q value: %q } ", o[0], o[0])
	}
	return declared, mapped
}

func classify(network func() *onnxgen.Model, words string) task {
	declared, mapped := outputs([2]string{"label", "data_type: TYPE_STRING dims: [ -1, -1 ]"}, [2]string{"probability", "data_type: TYPE_FP32 dims: [ -1, -1 ]"}, [2]string{"class", "data_type: TYPE_INT32 dims: [ -1, -1 ]"})
	return task{
		path: "/classify", model: "classifier", network: network, steps: []string{"classifier_input", "labels"}, words: words,
		ensemble: fmt.Sprintf(between, declared, "classifier_input", "", "classifier", "labels", "scores", mapped),
	}
}

func detect(words string) task {
	declared, mapped := outputs([2]string{"box", "data_type: TYPE_FP32 dims: [ -1, 4 ]"}, [2]string{"score", "data_type: TYPE_FP32 dims: [ -1 ]"}, [2]string{"class", "data_type: TYPE_INT32 dims: [ -1 ]"})
	return task{
		path: "/detect", model: "detector", network: detectorHead, steps: []string{"letterbox", "yolo"}, words: words, goal: 3,
		ensemble: fmt.Sprintf(between, declared, "letterbox", `output_map { key: "map" value: "map" }`, "detector", "yolo", "output", `input_map { key: "map" value: "map" } `+mapped),
	}
}

// detectorHead makes a model that answers any picture of 640 x 640 with the same head. It costs little, so that what stands
// before and behind a model is what is compared.
func detectorHead() *onnxgen.Model {
	head := samples.Detections(1)
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Name: "detector",
		Nodes: []onnxgen.Node{
			{Op: "Slice", In: []string{"input", "zero", "one", "axis"}, Out: []string{"row"}},
			{Op: "ReduceMean", In: []string{"row"}, Out: []string{"mean"}, Attributes: []onnxgen.Attribute{onnxgen.IntsAttribute("axes", 1, 2, 3), onnxgen.IntAttribute("keepdims", 0)}},
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
func classifierHead() *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Name: "classifier",
		Nodes: []onnxgen.Node{
			{Op: "GlobalAveragePool", In: []string{"input"}, Out: []string{"pool"}},
			{Op: "Flatten", In: []string{"pool"}, Out: []string{"mean"}},
			{Op: "MatMul", In: []string{"mean", "weights"}, Out: []string{"output"}},
		},
		Initializers: []onnxgen.Tensor{onnxgen.Floats("weights", []int64{3, 1000}, scores(3000)...)},
		Inputs:       []onnxgen.Value{{Name: inputName, Type: onnxgen.Float, Dims: onnxgen.Dims(1, 3, 224, 224)}},
		Outputs:      []onnxgen.Value{{Name: outputName, Type: onnxgen.Float, Dims: onnxgen.Dims(1, 1000)}},
	}}
}

// mobileNet is a real image network.
func mobileNet() *onnxgen.Model { return onnxgen.MobileNetV2(1) }

// pythonFigures holds a pipeline of steps around a model in the box against the same work in a Python process that asks the
// same box for the same model.
func pythonFigures(t task) measurement {
	return func(dir string, rounds int) (r result, err error) {
		m, err := newSingleMachine(dir)
		if err != nil {
			return r, err
		}
		file, err := os.ReadFile(filepath.Join(samplesDir, "face.jpg"))
		if err != nil {
			return r, err
		}
		b, err := startBox(filepath.Join(dir, "data"))
		if err != nil {
			return r, err
		}
		defer func() { _ = b.stop() }()
		if err := push(b, t.model, t.network().Bytes(), ""); err != nil {
			return r, err
		}
		if err := pushSteps(b, t.steps...); err != nil {
			return r, err
		}
		if err := pushAs(b, "pipeline", "config.pbtxt", []byte(t.ensemble), ""); err != nil {
			return r, err
		}
		python, address, err := startPython(b)
		if err != nil {
			return r, err
		}
		defer func() { _ = python.cmd.Process.Kill() }()
		if err := sameClasses(b, "http://"+address+t.path, file); err != nil {
			return r, err
		}
		c, err := clientsOf(b, "pipeline", samples.Elements("image", file), kserve.Binary, anywhere)
		if err != nil {
			return r, err
		}
		p := &callers{address: address, path: t.path, headers: "Content-Type: image/jpeg\r\n", body: file, core: anywhere}
		sides := []side{
			{"steps in the box", func() (sample, error) { return c.loop(1, pipelineTime) }},
			{"Python behind a socket", func() (sample, error) { return p.loop(1, pipelineTime) }},
		}
		all, err := m.interleave(rounds, sides)
		if err != nil {
			return r, err
		}
		name, ratio := t.words+": steps in the box / Python behind a socket", all[0].over(all[1])
		detail := fmt.Sprintf("a photograph of 512 x 512, JPEG, 1 client; p50 %s against %s", duration(all[0].p50()), duration(all[1].p50()))
		r.Figures = []figure{known(name, ratio, "x", detail)}
		if t.goal > 0 {
			r.Figures = []figure{atLeast(name, ratio, t.goal, "x", detail)}
		}
		return r, nil
	}
}

// sameClasses checks that the pipeline and the Python process find the same classes in the same order.
func sameClasses(b *box, url string, file []byte) error {
	response, err := b.client.Infer(context.Background(), &edgewise.Request{Model: edgewise.ModelID{Name: "pipeline"}, Inputs: []edgewise.Tensor{samples.Elements("image", file)}})
	if err != nil {
		return err
	}
	defer response.Release()
	var want []int32
	for _, t := range response.Outputs {
		for i := 0; t.Name == "class" && i < len(t.Data); i += 4 {
			want = append(want, int32(binary.LittleEndian.Uint32(t.Data[i:])))
		}
	}
	res, err := http.Post(url, "image/jpeg", bytes.NewReader(file))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var found []struct{ Class int32 }
	if err := json.NewDecoder(res.Body).Decode(&found); err != nil {
		return err
	}
	var got []int32
	for _, f := range found {
		got = append(got, f.Class)
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		return fmt.Errorf("the Python process finds classes %v, the steps %v", got, want)
	}
	return nil
}
