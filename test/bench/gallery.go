package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/step"
	"github.com/edgewise-ai/edgewise/test/samples"
	"github.com/edgewise-ai/edgewise/wasm"
)

// Where "make steps" puts the gallery, and the demo its samples.
const (
	stepsDir    = "dist/steps"
	modelsDir   = "dist/demo/models"
	samplesDir  = "configs/demo/samples"
	galleryTime = 200 * time.Millisecond
	patience    = time.Minute // for compiling, while the machine is busy
)

// gallery are the steps of sdk/gallery.
var gallery = [...]string{
	"anchors", "classifier_input", "ctc", "face_input", "labels", "letterbox", "ocr_input", "ocr_lines", "ocr_regions", "sound_frames", "speech", "yolo",
}

// question is a request that is representative of what a step of the gallery is asked, in words for the table.
type question struct {
	words  string
	req    *edgewise.Request
	models edgewise.Inferer
}

// ask makes a question without parameters.
func ask(words string, inputs ...edgewise.Tensor) question {
	return question{words: words, req: &edgewise.Request{Inputs: inputs, Parameters: map[string]any{}}}
}

// questionOf returns the question for a step.
func questionOf(name string) (question, error) {
	switch name {
	case "anchors":
		return facesQuestion(), nil
	case "classifier_input", "letterbox", "face_input":
		file, err := os.ReadFile(filepath.Join(samplesDir, "face.jpg"))
		return ask("a photograph of 512 x 512, JPEG", samples.Elements("image", file)), err
	case "ocr_input":
		file, err := os.ReadFile(filepath.Join(samplesDir, "text.png"))
		return ask("a picture of 640 x 360, PNG", samples.Elements("image", file)), err
	case "ocr_lines":
		return linesQuestion()
	case "ocr_regions":
		heat := samples.Regions(rand.New(rand.NewPCG(1, 2)), 640, 352)
		size := edgewise.Tensor{Name: "size", Type: edgewise.Int32, Shape: edgewise.Shape{1, 2}, Data: []byte{128, 2, 0, 0, 104, 1, 0, 0}} // 640, 360
		return ask("a heat map of 640 x 352 with five lines", samples.Floats("heat", heat, 1, 1, 352, 640), size), nil
	case "ctc":
		return charactersQuestion()
	case "labels":
		return ask("1,000 classes", samples.Floats("scores", scores(1000), 1, 1000)), nil
	case "yolo":
		return ask("a v8 head of 8,400 places and 80 classes", samples.Detections(8400, 1)), nil
	case "sound_frames":
		return ask("half a second of stereo at 44.1 kHz", samples.Elements("sound", samples.WAV(22_050, 44_100, 2, 16, 1))), nil
	case "speech":
		q := ask("10 s at 16 kHz, 313 calls of a model", samples.Elements("sound", samples.WAV(160_000, 16_000, 1, 16, 1)))
		q.models = inferer(samples.Speech)
		return q, nil
	}
	return question{}, fmt.Errorf("no question is known for step %q", name)
}

func facesQuestion() question {
	reply := samples.Faces(rand.New(rand.NewPCG(1, 3)))
	for i, name := range []string{"score", "value", "score_2", "value_2"} {
		reply[i].Name = name
	}
	return ask("896 anchors of BlazeFace", append(reply, samples.Floats("map", []float32{0.4, 0.4, 0, 32, 640, 480}, 1, 6))...)
}

// textLines are the corners of the lines in the demo's picture of text, or of as much of it.
func textLines() []float32 {
	return []float32{
		40, 50, 440, 50, 440, 72, 40, 72,
		50, 140, 470, 161, 469, 179, 49, 158,
		60, 220, 150, 220, 150, 244, 60, 244,
		460, 215, 560, 205, 562, 226, 462, 236,
		600, 60, 616, 60, 616, 240, 600, 240,
	}
}

func linesQuestion() (question, error) {
	file, err := os.ReadFile(filepath.Join(samplesDir, "text.png"))
	return ask("five lines of a picture of 640 x 360, PNG", samples.Elements("image", file), samples.Floats("quad", textLines(), 5, 4, 2)), err
}

func charactersQuestion() (question, error) {
	keys, err := os.ReadFile("cmd/edgewise/demo/ppocr_keys_v1.txt")
	classes := len(strings.Split(strings.TrimSuffix(string(keys), "\n"), "\n")) + 2 // with none, and the space
	q := ask(fmt.Sprintf("five lines of 40 columns, %d characters", classes), samples.Characters(rand.New(rand.NewPCG(1, 4)), 5, 40, classes))
	q.req.Inputs[0].Name = "probability"
	q.req.Parameters["alphabet"], q.req.Parameters["space_threshold"] = string(keys), "0.005"
	return q, err
}

func scores(n int) []float32 {
	r := rand.New(rand.NewPCG(1, 5))
	all := make([]float32, n)
	for i := range all {
		all[i] = float32(10 * r.NormFloat64())
	}
	return all
}

// inferer answers what steps ask other models.
type inferer func(*edgewise.Request) ([]edgewise.Tensor, error)

// Infer answers a request.
func (f inferer) Infer(_ context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	outputs, err := f(req)
	return &edgewise.Response{Model: req.Model, Outputs: outputs}, err
}

// loadStep loads a step of the gallery, as a box would, or with another way to stop it.
func loadStep(dir, name string, way wasm.Stopping, models edgewise.Inferer) (*step.Loaded, error) {
	folder := filepath.Join(dir, fmt.Sprintf("%s-%d", name, way))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for from, to := range map[string]string{"1/model.wasm": step.ModuleFile, "config.pbtxt": "config.pbtxt"} {
		data, err := os.ReadFile(filepath.Join(stepsDir, name, from))
		if os.IsNotExist(err) && to != step.ModuleFile {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w (\"make steps\" builds it)", err)
		}
		if err := os.WriteFile(filepath.Join(folder, to), data, 0o644); err != nil {
			return nil, err
		}
	}
	return step.Load(context.Background(), folder, step.Limits{Infer: models, Start: patience, Timeout: patience, Stopping: way})
}

// timing is how long an answer took, of which the sample is made.
type timing func(whole time.Duration, response *edgewise.Response) time.Duration

func wholeTime(whole time.Duration, _ *edgewise.Response) time.Duration { return whole }
func guestTime(_ time.Duration, response *edgewise.Response) time.Duration {
	return response.Timing.Guest.Time
}

// answers asks a step the same over and over for a while.
func answers(l edgewise.Inferer, q question, during time.Duration, of timing) (sample, error) {
	var latencies perf.Histogram
	took := time.Duration(0)
	for end := time.Now().Add(during); ; {
		begin := time.Now()
		response, err := l.Infer(context.Background(), q.req)
		if err != nil {
			return sample{}, err
		}
		one := of(time.Since(begin), response)
		response.Release()
		latencies.Record(one)
		took += one
		if time.Now().After(end) {
			return newSample(&latencies, took), nil
		}
	}
}
