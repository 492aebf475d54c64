package sdk

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/proposal"
	"github.com/edgewise-ai/edgewise/ensemble"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// understood is what a box makes of an ONNX model without a configuration.
func understood(t *testing.T, dir, name string) *edgewise.Model {
	t.Helper()
	files := []string{"model.onnx"}
	defaults := modelconfig.Defaults{Formats: appliance.Formats(), InstanceCount: 1}
	m, err := modelconfig.Identify(&edgewise.Model{}, name, files, defaults)
	if err != nil {
		t.Fatal(err)
	}
	inspection, err := onnx.New(onnx.Config{Logger: slog.New(slog.DiscardHandler)}).Inspect(t.Context(), dir, m)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = modelconfig.Complete(m, name, files, inspection, defaults); err != nil {
		t.Fatal(err)
	}
	return m
}

// declared is a model with one input and one output.
func declared(name string, in, out edgewise.Shape) *edgewise.Model {
	return &edgewise.Model{
		Name: name, Platform: onnx.Platform,
		Input:  []edgewise.ModelInput{{Name: "images", DataType: edgewise.FP32, Dims: in}},
		Output: []edgewise.ModelOutput{{Name: "output0", DataType: edgewise.FP32, Dims: out}},
	}
}

// TestProposalsFitTheModelsAndTheGallery takes models of each family, the demo's real ones among them: what is proposed
// is a graph that the box accepts, of steps that the gallery has with parameters that they know.
func TestProposalsFitTheModelsAndTheGallery(t *testing.T) {
	folder := func(name string) string { return filepath.Join(real.Models(t), name, "1") }
	generated := t.TempDir()
	if err := onnxgen.MobileNetV2(1).Save(generated); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		model *edgewise.Model
		tasks []string
	}{
		{"BlazeFace", understood(t, folder("face"), "face"), []string{"face detection, BlazeFace"}},
		{"PP-OCR detection", understood(t, folder("ocr_detect"), "detect"), []string{"text detection, PP-OCR"}},
		{"PP-OCR recognition", understood(t, folder("ocr_recognize"), "recognize"), []string{"text recognition, CTC"}},
		{
			"PP-OCR direction, a classifier of pictures of any size", understood(t, folder("ocr_direction"), "direction"),
			[]string{"image classification"},
		},
		{"Silero VAD", understood(t, folder("vad"), "vad"), []string{"voice activity, Silero VAD"}},
		{"a classifier of the ImageNet family", understood(t, generated, "mobilenet"), []string{"image classification"}},
		{
			"a classifier with pixels last", declared("keras", edgewise.Shape{-1, 299, 299, 3}, edgewise.Shape{-1, 5}),
			[]string{"image classification"},
		},
		{"YOLO v8", declared("yolo", edgewise.Shape{1, 3, 640, 640}, edgewise.Shape{1, 84, 8400}), []string{"object detection, YOLO v8"}},
		{"YOLO v5", declared("yolo", edgewise.Shape{1, 3, 640, 640}, edgewise.Shape{1, 25200, 85}), []string{"object detection, YOLO v5"}},
		{
			"a head that could be either", declared("yolo", edgewise.Shape{1, 3, 640, 640}, edgewise.Shape{1, 600, 800}),
			[]string{"object detection, YOLO v8", "object detection, YOLO v5"},
		},
		{"numbers", declared("mlp", edgewise.Shape{-1, 64}, edgewise.Shape{-1, 10}), nil},
		{"a picture to a picture", declared("style", edgewise.Shape{1, 3, 224, 224}, edgewise.Shape{1, 3, 224, 224}), nil},
		{"one number of a picture", declared("age", edgewise.Shape{1, 3, 224, 224}, edgewise.Shape{1, 1}), nil},
		{"an ensemble", &edgewise.Model{Name: "e", EnsembleScheduling: &edgewise.EnsembleScheduling{}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tasks []string
			for _, p := range proposal.For(tt.model, appliance.Formats()) {
				tasks = append(tasks, p.Task)
				fits(t, tt.model, p)
			}
			if !slices.Equal(tasks, tt.tasks) {
				t.Errorf("proposed for %v -> %v: %q, want %q", tt.model.Inputs(), tt.model.Outputs(), tasks, tt.tasks)
			}
		})
	}
}

// fits checks a proposal against the gallery, built from source.
func fits(t *testing.T, model *edgewise.Model, p admin.Proposal) {
	t.Helper()
	parts := map[string]*edgewise.Model{model.Name: model}
	for _, s := range p.Steps {
		l := gallery(t, s.Gallery, &box{})
		m := *l.Model
		m.Name = s.Name
		parts[s.Name] = &m
		known := knownParameters(t, s.Gallery)
		for name := range s.Parameters {
			if !slices.Contains(known, name) {
				t.Errorf("step %q: the gallery's %q has no parameter %q, only %q", s.Name, s.Gallery, name, known)
			}
		}
	}
	if p.Pipeline == nil {
		return
	}
	var inOrder []*edgewise.Model
	for _, step := range p.Pipeline.EnsembleScheduling.Step {
		if parts[step.ModelName] == nil {
			t.Fatalf("the pipeline has a step %q, which is not among those to store", step.ModelName)
		}
		inOrder = append(inOrder, parts[step.ModelName])
	}
	if err := ensemble.Validate(p.Pipeline, inOrder); err != nil {
		t.Errorf("the pipeline is refused: %v", err)
	}
}

// knownParameters are those that a step of the gallery describes, and the box's own for steps that call models.
func knownParameters(t *testing.T, step string) []string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("../../sdk/gallery", step, "step.c"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(source), `\"parameters\": [`)
	list, _, _ = strings.Cut(list, `]}"`)
	known := []string{"infer_models", "infer_calls"}
	for _, name := range regexp.MustCompile(`\{\\"name\\": \\"(\w+)\\"`).FindAllStringSubmatch(list, -1) {
		known = append(known, name[1])
	}
	return known
}
