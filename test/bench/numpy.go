package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/samples"
)

// stepTask is what a step does, or two of them, without any model, in a box and in a Python process with numpy alone.
type stepTask struct {
	name, words string
	step        string // of the gallery, or of this folder; of two, the first
	second      string
	config      string // of the pipeline: that of the step, or the ensemble
	inputs      func() ([]edgewise.Tensor, error)
	finds       []string // outputs, in the order in which the Python process answers with them
}

// stepTasks are those of the table.
func stepTasks() []stepTask {
	return []stepTask{
		{
			name: "detect", words: "640 x 480 pixels, letterbox to 416 x 416 and normalise, then YOLO boxes of a head that came with them", step: "frame", second: "yolo",
			config: frameAndBoxes, inputs: func() ([]edgewise.Tensor, error) { return []edgewise.Tensor{pixelsIn(), headIn()}, nil }, finds: []string{"probe", "box", "score", "class"},
		},
		{
			name: "frame", words: "640 x 480 pixels, letterbox to 416 x 416 and normalise", step: "frame",
			inputs: func() ([]edgewise.Tensor, error) { return []edgewise.Tensor{pixelsIn()}, nil }, finds: []string{"probe", "map"},
		},
		{
			name: "yolo", words: "a v8 head of 3,549 places and 80 classes, boxes", step: "yolo",
			inputs: func() ([]edgewise.Tensor, error) { return []edgewise.Tensor{headIn()}, nil }, finds: []string{"box", "score", "class"},
		},
		{
			name: "anchors", words: "896 anchors of BlazeFace, faces", step: "anchors",
			inputs: func() ([]edgewise.Tensor, error) { return facesQuestion().req.Inputs, nil }, finds: []string{"box", "score"},
		},
		{
			name: "ctc", words: "five lines of 40 columns and 6,625 characters, text", step: "ctc", config: alphabetConfig(),
			inputs: func() ([]edgewise.Tensor, error) {
				q, err := charactersQuestion()
				return q.req.Inputs, err
			}, finds: []string{"text", "confidence"},
		},
		{
			name: "sound", words: "6 s of WAV at 16 kHz, 198 frames", step: "sound_frames",
			inputs: func() ([]edgewise.Tensor, error) {
				file, err := os.ReadFile(filepath.Join(samplesDir, "speech.wav"))
				return []edgewise.Tensor{samples.Elements("sound", file)}, err
			}, finds: []string{"frame"},
		},
	}
}

// frameAndBoxes makes the tensor of a picture and reads boxes out of a head. Nobody is sent the tensor.
const frameAndBoxes = `platform: "ensemble"
input { name: "pixels" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] }
input { name: "output" data_type: TYPE_FP32 dims: [ 1, -1, -1 ] }
output { name: "probe" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "box" data_type: TYPE_FP32 dims: [ -1, 4 ] }
output { name: "score" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "class" data_type: TYPE_INT32 dims: [ -1 ] }
ensemble_scheduling {
  step { model_name: "frame" model_version: -1 input_map { key: "pixels" value: "pixels" } output_map { key: "probe" value: "probe" } output_map { key: "map" value: "map" } }
  step { model_name: "yolo" model_version: -1 input_map { key: "output" value: "output" } input_map { key: "map" value: "map" }
         output_map { key: "box" value: "box" } output_map { key: "score" value: "score" } output_map { key: "class" value: "class" } }
}`

// alphabetConfig gives ctc its alphabet.
func alphabetConfig() string {
	keys, err := os.ReadFile("cmd/edgewise/demo/ppocr_keys_v1.txt")
	if err != nil {
		return "" // the step says that it is missing
	}
	text := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.TrimSuffix(string(keys), "\n"))
	return `parameters { key: "alphabet" value { string_value: "` + text + `" } }`
}

func pixelsIn() edgewise.Tensor {
	r := rand.New(rand.NewPCG(1, 6))
	data := make([]byte, 640*480*3)
	for i := range data {
		data[i] = byte(i/3%640/4 + i/1920/4 + r.IntN(32))
	}
	return edgewise.Tensor{Name: "pixels", Type: edgewise.Uint8, Shape: edgewise.Shape{480, 640, 3}, Data: data}
}

func headIn() edgewise.Tensor { return samples.Detections(3549, 1) }

// numpyFigures holds steps in a box against a Python process with numpy.
func numpyFigures(t stepTask) measurement {
	return func(dir string, rounds int) (r result, err error) {
		m, err := newSingleMachine(dir)
		if err != nil {
			return r, err
		}
		inputs, err := t.inputs()
		if err != nil {
			return r, err
		}
		b, address, end, err := besidePython(dir, t.put)
		if err != nil {
			return r, err
		}
		defer end()
		body, path := rawBytes(inputs), "/steps/"+t.name
		if err := t.same(b, "http://"+address+path, inputs, body); err != nil {
			return r, err
		}
		c, err := clientsWith(b, "pipeline", inputs, t.finds, kserve.Binary, anywhere)
		if err != nil {
			return r, err
		}
		p := &callers{address: address, path: path, headers: "Content-Type: application/octet-stream\r\n", body: body, core: anywhere}
		all, err := m.interleave(rounds, []side{
			{"steps in the box", func() (sample, error) { return c.loop(1, pipelineTime) }},
			{"numpy behind a socket", func() (sample, error) { return p.loop(1, pipelineTime) }},
		})
		if err != nil {
			return r, err
		}
		r.Figures = []figure{atLeast("no model, numpy alone: "+t.words+", 1 client: steps / Python behind a socket", all[0].quicker(all[1]), 3, "x",
			fmt.Sprintf("%s against %s an answer, %.0f/s against %.0f/s; %.1f MB in", duration(all[0].quick()), duration(all[1].quick()), all[0].rate(), all[1].rate(), float64(len(body))/1e6))}
		return r, nil
	}
}

// put puts the steps into a box: one by itself, two as an ensemble.
func (t *stepTask) put(b *box, dir string) error {
	if t.second == "" {
		module, err := moduleOf(t.step, dir)
		if err != nil {
			return err
		}
		return pushAs(b, "pipeline", "model.wasm", module, t.config)
	}
	for _, name := range []string{t.step, t.second} {
		module, err := moduleOf(name, dir)
		if err != nil {
			return err
		}
		if err := pushAs(b, name, "model.wasm", module, ""); err != nil {
			return err
		}
	}
	return pushAs(b, "pipeline", "config.pbtxt", []byte(t.config), "")
}

// rawBytes is the bytes of tensors, one after the other; of elements, without their lengths.
func rawBytes(inputs []edgewise.Tensor) []byte {
	var body []byte
	for _, in := range inputs {
		if in.Type == edgewise.Bytes {
			body = append(body, element(in)...)
			continue
		}
		body = append(body, in.Data...)
	}
	return body
}

// same checks that both sides find the same.
func (t *stepTask) same(b *box, url string, inputs []edgewise.Tensor, body []byte) error {
	response, err := b.client.Infer(context.Background(), &edgewise.Request{Model: edgewise.ModelID{Name: "pipeline"}, Inputs: inputs, Outputs: t.finds})
	if err != nil {
		return err
	}
	defer response.Release()
	res, err := http.Post(url, "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	for _, name := range t.finds {
		out := outputNamed(response, name)
		if out == nil || len(out.Data) == 0 || len(answer) < len(out.Data) {
			return fmt.Errorf("output %q: the step answers %v, and %d bytes are left of the Python process's answer", name, out, len(answer))
		}
		if err := alike(*out, answer[:len(out.Data)]); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
		answer = answer[len(out.Data):]
	}
	if len(answer) > 0 {
		return fmt.Errorf("the Python process answers with %d bytes more", len(answer))
	}
	return nil
}

func outputNamed(response *edgewise.Response, name string) *edgewise.Tensor {
	for i := range response.Outputs {
		if response.Outputs[i].Name == name {
			return &response.Outputs[i]
		}
	}
	return nil
}

// alike compares what both say: numbers may differ by a pixel's thousandth, or by what rounding a colour takes.
func alike(out edgewise.Tensor, other []byte) error {
	if out.Type != edgewise.FP32 {
		if !bytes.Equal(out.Data, other) {
			return fmt.Errorf("the step finds %.200q, the Python process %.200q", out.Data, other)
		}
		return nil
	}
	a, b := samples.Values(out), samples.Values(edgewise.Tensor{Type: edgewise.FP32, Data: other})
	for i := range a {
		if d := a[i] - b[i]; max(d, -d) > 1e-3*max(1, a[i], -a[i]) && max(d, -d) > 1.001/255 {
			return fmt.Errorf("number %d: the step finds %v, the Python process %v", i, a[i], b[i])
		}
	}
	return nil
}
