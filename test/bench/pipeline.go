package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/test/native"
	"github.com/edgewise-ai/edgewise/test/samples"
)

const pipelineTime = 400 * time.Millisecond

// threading is how many threads a model has, in a box and alone.
type threading struct {
	words   string
	config  string // of the model in the box
	options ort.Options
}

// threadings are one thread, and what a lone client has in a box: one on each of two cores.
func threadings() map[string]threading {
	return map[string]threading{
		"one":  {"on one thread", `parameters { key: "intra_op_thread_count" value { string_value: "1" } }`, ort.Options{}},
		"both": {"on both cores, as a lone client has it", "", ort.Options{IntraThreads: 2, Spin: true, Rest: true}},
	}
}

// pipelineFigures holds the demo's pipeline "faces" in a box, from the client's bytes to the faces, against the sum of its parts:
// the model on ONNX Runtime alone, and the work of both steps in native Go, one after the other in one program. The model has as many threads on
// both sides.
func pipelineFigures(way threading) measurement {
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
		if err := pushFaces(b, way.config); err != nil {
			return r, err
		}
		c, err := clientsOf(b, "faces", samples.Elements("image", file), kserve.Binary, anywhere)
		if err != nil {
			return r, err
		}
		defer collecting()()
		p, err := newParts(file, way.options)
		if err != nil {
			return r, err
		}
		sides := []side{
			{"the box", func() (sample, error) { return c.loop(1, pipelineTime) }},
			{"the parts alone", func() (sample, error) { return repeat(p.run, pipelineTime) }},
		}
		for _, s := range sides { // warm
			if _, err := s.run(); err != nil {
				return r, err
			}
		}
		p.spent, p.runs = [3]time.Duration{}, 0
		all, err := m.interleave(rounds, sides)
		if err != nil {
			return r, err
		}
		r.Figures = []figure{atMost("the demo's faces in the box, the model "+way.words+": time over that of its parts alone, native", 100*(all[1].quicker(all[0])-1), 10, "%",
			fmt.Sprintf("a photograph of 512 x 512, JPEG, 1 client; %s against %s: picture to tensor %s, model %s, anchors to faces %s", duration(all[0].quick()), duration(all[1].quick()),
				p.mean(0), p.mean(1), p.mean(2)))}
		return r, nil
	}
}

// pushFaces puts the pipeline into a box, with more in its model's configuration.
func pushFaces(b *box, more string) error {
	config, err := os.ReadFile(filepath.Join(modelsDir, "face/config.pbtxt"))
	if err != nil {
		return err
	}
	if err := pushFile(b, "face", filepath.Join(modelsDir, "face/1/model.onnx"), string(config)+more); err != nil {
		return err
	}
	if err := pushSteps(b, "face_input", "anchors"); err != nil {
		return err
	}
	ensemble, err := os.ReadFile("configs/demo/pipelines/faces/config.pbtxt")
	if err != nil {
		return err
	}
	return pushAs(b, "faces", "config.pbtxt", ensemble, "")
}

// pushSteps puts steps of the gallery into a box.
func pushSteps(b *box, names ...string) error {
	for _, name := range names {
		module, err := os.ReadFile(filepath.Join(stepsDir, name, "1/model.wasm"))
		if err != nil {
			return fmt.Errorf("%w (\"make steps\" builds it)", err)
		}
		if err := pushAs(b, name, "model.wasm", module, ""); err != nil {
			return err
		}
	}
	return nil
}

// parts are what the pipeline does, without a box.
type parts struct {
	file    []byte
	input   native.Inputs
	session *ort.Session
	spent   [3]time.Duration // in the parts
	runs    int
}

// faceOutputs are the model's outputs: scores and values of 512 anchors, then of 384.
var faceOutputs = []string{"Identity:0", "Identity_2:0", "Identity_1:0", "Identity_3:0"}

func newParts(file []byte, o ort.Options) (*parts, error) {
	lib, err := ort.Open([]string{"bin/lib/libonnxruntime.so.1"})
	if err != nil {
		return nil, err
	}
	session, err := lib.NewSession(filepath.Join(modelsDir, "face/1/model.onnx"), []string{"input:0"}, faceOutputs, o)
	return &parts{file: file, session: session}, err
}

func (p *parts) run() error {
	start := time.Now()
	tensor, m, err := p.input.Face(p.file)
	if err != nil {
		return err
	}
	in := edgewise.Tensor{Name: "input:0", Type: edgewise.FP32, Shape: edgewise.Shape{1, 256, 256, 3}, Data: native.Bytes(tensor)}
	prepared := time.Now()
	reply, err := p.session.Run(context.Background(), []edgewise.Tensor{in}, faceOutputs)
	if err != nil {
		return err
	}
	ran := time.Now()
	of := func(i int) []float32 { return native.Floats(reply.Outputs[i].Data) }
	found := native.Faces([2][]float32{of(0), of(2)}, [2][]float32{of(1), of(3)}, m)
	reply.Free()
	if len(found) != 1 {
		return fmt.Errorf("%d faces were found in the demo's photograph, which has one", len(found))
	}
	for i, d := range [3]time.Duration{prepared.Sub(start), ran.Sub(prepared), time.Since(ran)} {
		p.spent[i] += d
	}
	p.runs++
	return nil
}

func (p *parts) mean(i int) string { return duration(p.spent[i].Seconds() / float64(p.runs)) }
