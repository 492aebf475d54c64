package sdk

import (
	"fmt"
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
func understood(t *testing.T, dir, name string) (*edgewise.Model, proposal.Facts) {
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
	return m, proposal.Read(dir, m, inspection)
}

// generated is a model with a head: what its file declares and says, and what it is taken for; "": for nothing.
type generated struct {
	name     string
	in, out  []onnxgen.Value
	metadata map[string]string
	labels   string // of a file beside it
	task     string
	steps    string
}

func value(name string, sizes ...int64) onnxgen.Value {
	v := onnxgen.Value{Name: name, Type: onnxgen.Float}
	for _, n := range sizes {
		v.Dims = append(v.Dims, onnxgen.Dim{Size: n})
	}
	return v
}

func typed(t onnxgen.Type, name string, sizes ...int64) onnxgen.Value {
	v := value(name, sizes...)
	v.Type = t
	return v
}

func values(list ...onnxgen.Value) []onnxgen.Value { return list }

func ultralytics(task, names string, more ...string) map[string]string {
	m := map[string]string{"task": task, "names": names, "stride": "32", "imgsz": "[640, 640]"}
	for i := 0; i < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return m
}

const coco = 80

// dictionary writes names of n classes as Ultralytics does.
func dictionary(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%d: 'thing %d'", i, i)
	}
	return "{" + strings.Join(list, ", ") + "}"
}

func heads() []generated {
	picture := func(side int64) []onnxgen.Value { return values(value("images", 1, 3, side, side)) }
	lines := strings.Repeat("x\n", 20)
	yolo := "picture_input detector"
	return []generated{
		{"a classifier", picture(224), values(value("logits", 1, 1000)), nil, "", "image classification", "picture_input classes"},
		{
			"a classifier of Ultralytics", picture(224), values(value("output0", 1, 7)), ultralytics("classify", dictionary(7)), "",
			"image classification", "picture_input classes",
		},
		{
			"a classifier with pixels last", values(value("x", -1, 299, 299, 3)), values(value("dense", -1, 5)), nil, "",
			"image classification", "picture_input classes",
		},
		{
			"a classifier of 4 classes with a label file", picture(96), values(value("y", 1, 4)), nil, "a\nb\nc\nd\n",
			"image classification", "picture_input classes",
		},
		{
			"YOLO v5", picture(640), values(value("output0", 1, 25200, 85)), ultralytics("detect", dictionary(coco)), "",
			"object detection, YOLO v5", yolo,
		},
		{"YOLO v5 without a word", picture(320), values(value("output", 1, 6300, 6)), nil, "", "object detection, YOLO v5", yolo},
		{"YOLO v6", picture(640), values(value("outputs", 1, 8400, 85)), nil, "", "object detection, YOLO v5", yolo},
		{"YOLO v8 without a word", picture(640), values(value("output0", 1, 84, 8400)), nil, "", "object detection, YOLO v8", yolo},
		{
			"YOLO v8 of any size", values(value("images", -1, 3, -1, -1)), values(value("output0", -1, 84, -1)),
			ultralytics("detect", dictionary(coco)), "", "object detection, YOLO v8", yolo,
		},
		{
			"YOLO v11 of two classes", picture(416), values(value("output0", 1, 6, 3549)), ultralytics("detect", "{0: 'cat', 1: 'dog'}"),
			"", "object detection, YOLO v8", yolo,
		},
		{
			"YOLO v8 of small pictures", picture(64), values(value("output0", 1, 6, 84)), ultralytics("detect", "{0: 'cat', 1: 'dog'}"), "",
			"object detection, YOLO v8", yolo,
		},
		{
			"YOLO v10", picture(640), values(value("output0", 1, 300, 6)), ultralytics("detect", dictionary(coco)), "",
			"object detection, YOLO end to end", yolo,
		},
		{
			"masks of YOLO v8", picture(640), values(value("output0", 1, 116, 8400), value("output1", 1, 32, 160, 160)),
			ultralytics("segment", dictionary(coco)), "", "instance segmentation, YOLO v8", yolo,
		},
		{
			"masks of YOLO v5", picture(640), values(value("output0", 1, 25200, 117), value("output1", 1, 32, 160, 160)), nil, "",
			"instance segmentation, YOLO v5", yolo,
		},
		{
			"masks of YOLO v26", picture(640), values(value("output0", 1, 300, 38), value("output1", 1, 32, 160, 160)),
			ultralytics("segment", dictionary(coco), "end2end", "True"), "", "instance segmentation, YOLO end to end", yolo,
		},
		{
			"a pose of YOLO v8", picture(640), values(value("output0", 1, 56, 8400)),
			ultralytics("pose", "{0: 'person'}", "kpt_shape", "[17, 3]"), "", "pose estimation, YOLO v8", yolo,
		},
		{
			"a pose of YOLO v26", picture(640), values(value("output0", 1, 300, 16)),
			ultralytics("pose", "{0: 'hand'}", "kpt_shape", "[5, 2]"), "", "pose estimation, YOLO end to end", yolo,
		},
		{
			"turned boxes of YOLO v11", picture(1024), values(value("output0", 1, 20, 21504)), ultralytics("obb", dictionary(15)), "",
			"detection of turned boxes, YOLO v8", yolo,
		},
		{
			"turned boxes of YOLO v26", picture(1024), values(value("output0", 1, 300, 7)), ultralytics("obb", dictionary(15)), "",
			"detection of turned boxes, YOLO end to end", yolo,
		},
		{
			"DETR", values(value("pixel_values", 1, 3, 800, 800)), values(value("logits", 1, 100, 92), value("pred_boxes", 1, 100, 4)), nil,
			"", "object detection, DETR", "picture_input detections",
		},
		{
			"RT-DETR", picture(640), values(value("logits", 1, 300, 80), value("pred_boxes", 1, 300, 4)), nil, "",
			"object detection, DETR", "picture_input detections",
		},
		{
			"SSD of TensorFlow", values(typed(onnxgen.TypeOf(edgewise.Uint8), "image_tensor:0", 1, -1, -1, 3)), values(
				value("num_detections:0", 1), value("detection_boxes:0", 1, 100, 4), value("detection_scores:0", 1, 100),
				value("detection_classes:0", 1, 100),
			), nil, "", "object detection, SSD", "picture_input detections",
		},
		{
			"SSD with labels as whole numbers", values(value("image", 1, 3, 1200, 1200)), values(
				value("bboxes", 1, -1, 4), typed(onnxgen.TypeOf(edgewise.Int64), "labels", 1, -1), value("scores", 1, -1),
			), nil, "", "object detection, SSD", "picture_input detections",
		},
		{
			"semantic segmentation", picture(512), values(value("out", 1, 21, 512, 512)), nil, "", "semantic segmentation",
			"picture_input segments",
		},
		{
			"semantic segmentation with names, of a fourth of the size", picture(512), values(value("y", 1, 20, 128, 128)), nil, lines,
			"semantic segmentation", "picture_input segments",
		},
		{
			"an embedding", values(value("images", -1, 3, 224, 224)), values(value("image_embeds", -1, 512)), nil, "",
			"an embedding of pictures", "picture_input",
		},
		{
			"an embedding of faces", values(value("data", 1, 3, 112, 112)), values(value("fc1", 1, 512)), nil, "",
			"an embedding of pictures", "picture_input",
		},
		{
			"text recognition with its characters", values(value("x", -1, 3, 48, -1)), values(value("softmax", -1, -1, 97)),
			map[string]string{"character": strings.Repeat("c\n", 95)},
			"", "text recognition, CTC", "picture_input ctc",
		},
		{
			"sounds, as YAMNet hears them", values(value("waveform", -1)),
			values(value("scores", -1, 521), value("embeddings", -1, 1024), value("spectrogram", -1, 64)), nil, "",
			"classification of sounds", "sound_input classes",
		},
		{
			"speech to text", values(value("input_values", -1, -1)), values(value("logits", -1, -1, 32)),
			map[string]string{"classes": "<pad>,<s>,</s>,<unk>,|," + strings.Repeat("a,", 26) + "b"},
			"", "speech to text, CTC",
			"sound_input ctc",
		},

		// What would be drawn wrong, if it were taken for something.
		{"YOLOX, whose boxes are relative to their cells", picture(640), values(value("output", 1, 8400, 85)), nil, "", "", ""},
		{"56 values: 52 classes, or a person's key points", picture(640), values(value("output0", 1, 56, 8400)), nil, "", "", ""},
		{"places of no grid", picture(640), values(value("output0", 1, 600, 800)), nil, "", "", ""},
		{"rows of 84 values, as of RT-DETR", picture(640), values(value("output0", 1, 300, 84)), nil, "", "", ""},
		{
			"names that do not fit", picture(640), values(value("output0", 1, 84, 8400)), ultralytics("detect", dictionary(3)), "", "", "",
		},
		{
			"SSD before its anchors are applied", picture(300), values(value("boxes", 1, 8732, 4), value("scores", 1, 8732, 21)), nil, "",
			"", "",
		},
		{"YOLO v7 with rows of a batch", picture(640), values(value("output", -1, 7)), nil, "", "", ""},
		{"key points as planes", values(value("input", 1, 3, 256, 192)), values(value("output", 1, 17, 64, 48)), nil, "", "", ""},
		{"a picture to a picture", picture(224), values(value("y", 1, 3, 224, 224)), nil, "", "", ""},
		{"depth", picture(256), values(value("depth", 1, 256, 256)), nil, "", "", ""},
		{"one number of a picture", picture(224), values(value("age", 1, 1)), nil, "", "", ""},
		{"numbers", values(value("x", -1, 64)), values(value("y", -1, 10)), nil, "", "", ""},
		{
			"words", values(typed(onnxgen.TypeOf(edgewise.Int64), "input_ids", -1, -1)), values(value("logits", -1, 2)), nil, "", "", "",
		},
	}
}

// TestHeadsAreRecognisedOrUnknown generates a model with each head: it is taken for what it is or for nothing, and what
// is proposed is a graph that the box accepts, of steps that the gallery has with parameters that they know.
func TestHeadsAreRecognisedOrUnknown(t *testing.T) {
	for _, h := range heads() {
		t.Run(h.name, func(t *testing.T) {
			m := onnxgen.Model{Graph: onnxgen.Graph{Inputs: h.in, Outputs: h.out}}
			for _, o := range h.out {
				m.Graph.Nodes = append(m.Graph.Nodes, onnxgen.Node{Op: "Identity", In: []string{h.in[0].Name}, Out: []string{o.Name}})
			}
			for key, v := range h.metadata {
				m.Metadata = append(m.Metadata, onnxgen.Entry{Key: key, Value: v})
			}
			dir := t.TempDir()
			if err := m.Save(dir); err != nil {
				t.Fatal(err)
			}
			if h.labels != "" {
				if err := os.WriteFile(filepath.Join(dir, "labels.txt"), []byte(h.labels), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			model, facts := understood(t, dir, "m")
			proposed(t, model, facts, h.task, h.steps)
		})
	}
}

func TestTheDemosModelsAreRecognised(t *testing.T) {
	made := t.TempDir()
	if err := onnxgen.MobileNetV2(1).Save(made); err != nil {
		t.Fatal(err)
	}
	folder := func(name string) string { return filepath.Join(real.Models(t), name, "1") }
	for _, tt := range []struct{ dir, task, steps string }{
		{folder("face"), "face detection, BlazeFace", "face_input anchors"},
		{folder("ocr_detect"), "text detection, PP-OCR", "ocr_input ocr_regions"},
		{folder("ocr_recognize"), "text recognition, CTC", "picture_input ctc"},
		{folder("ocr_direction"), "image classification", "picture_input classes"}, // of pictures of any size
		{folder("vad"), "voice activity, Silero VAD", "speech"},
		{made, "image classification", "picture_input classes"},
	} {
		t.Run(tt.task, func(t *testing.T) {
			m, facts := understood(t, tt.dir, "m")
			proposed(t, m, facts, tt.task, tt.steps)
		})
	}
	if list := proposal.For(&edgewise.Model{Name: "e", EnsembleScheduling: &edgewise.EnsembleScheduling{}}, appliance.Formats(),
		proposal.Facts{}); len(list) != 0 {
		t.Errorf("an ensemble is taken for %v", list)
	}
}

// proposed checks what a model is taken for.
func proposed(t *testing.T, m *edgewise.Model, facts proposal.Facts, task, steps string) {
	t.Helper()
	var tasks, used []string
	for _, p := range proposal.For(m, appliance.Formats(), facts) {
		tasks = append(tasks, p.Task)
		for _, s := range p.Steps {
			used = append(used, s.Gallery)
		}
		fits(t, m, p)
	}
	if got := strings.Join(tasks, "; "); got != task || strings.Join(used, " ") != steps {
		t.Errorf("%v -> %v is taken for %q with %q, want %q with %q", m.Inputs(), m.Outputs(), got, used, task, steps)
	}
}

func TestNamesOfClassesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]string{
		"{0: 'person', 1: \"rider's horse\"}":   "person|rider's horse",
		`{"1": "dog", "0": "cat: a \"pet\""}`:   `cat: a "pet"|dog`,
		"['a', 'b, c']":                         "a|b, c",
		"cat, dog":                              "cat|dog",
		"cat\ndog, hot":                         "cat|dog, hot",
		"cat":                                   "",
		"":                                      "",
		"{0: 'a', 2: 'c'}":                      "",
		"{0: 'a', 1: 'never ends":               "",
		"{0: {'x': 1}}":                         "",
		"{999999999999999999999999999999: 'a'}": "",
	} {
		if got := strings.Join(proposal.ParseNames(text), "|"); got != want {
			t.Errorf("names in %s: %q, want %q", text, got, want)
		}
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
	files, err := filepath.Glob(filepath.Join("../../sdk/gallery", step, "step.*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("sources %v of step %q, error %v", files, step, err)
	}
	source, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(strings.ReplaceAll(string(source), `\"`, `"`), `"parameters": [`)
	known := []string{"infer_models", "infer_calls"}
	for _, name := range regexp.MustCompile(`\{"name": "(\w+)"`).FindAllStringSubmatch(list, -1) {
		known = append(known, name[1])
	}
	return known
}
