package modelconfig

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
)

const guide = "../../docs/guides/model-configuration.md"

func TestTheExamplesAreValidAndSayTheSame(t *testing.T) {
	files := []string{"labels.txt", "model.onnx"}
	ins := signature([]edgewise.TensorInfo{info("image", edgewise.FP32, -1, 3, 224, 224)},
		[]edgewise.TensorInfo{info("scores", edgewise.FP32, -1, 1000)})
	var first *edgewise.Model
	for _, file := range []string{"classifier.pbtxt", "classifier.yaml", "classifier.json", "tagger.yaml"} {
		text, err := os.ReadFile("../../configs/models/" + file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		name := m.Name
		if name == "" {
			name = "tagger"
		}
		m, err = Complete(m, name, files, ins, testDefaults)
		if err == nil {
			err = Validate(m, files, ins, testDefaults)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if name == "tagger" {
			continue
		}
		if first == nil {
			first = m
		}
		if diff := cmp.Diff(first, m); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

func TestTheGuideSaysTheSameThreeTimes(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(pbtxt|yaml|json)\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) != 3 {
		t.Fatalf("got %d blocks, want 3", len(blocks))
	}
	var first *edgewise.Model
	for _, block := range blocks {
		m, err := Parse("config."+string(block[1]), block[2])
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = m
		}
		if diff := cmp.Diff(first, m); diff != "" {
			t.Errorf("%s: %s", block[1], diff)
		}
	}
}
