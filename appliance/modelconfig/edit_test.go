package modelconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
)

func TestTextSaysWhatWasRead(t *testing.T) {
	files, err := filepath.Glob("../../configs/models/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(file, data)
		if err != nil {
			t.Fatal(err)
		}
		text := Text(m)
		again, err := Parse(Pbtxt, text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, text)
		}
		if diff := cmp.Diff(Clone(m), Clone(again)); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

func TestTextTellsNoBatchingFromNothingWritten(t *testing.T) {
	if text := Text(&edgewise.Model{MaxBatchSize: Unset}); len(text) != 0 {
		t.Errorf("%q", text)
	}
	if text := Text(&edgewise.Model{}); string(text) != "max_batch_size: 0\n" {
		t.Errorf("%q", text)
	}
}

func TestEditKeepsComments(t *testing.T) {
	const text = "# ours\nmax_batch_size: 8 # measured\ndynamic_batching { }\n"
	got, err := Edit([]byte(text), []byte(`{"dynamic_batching": null, "max_batch_size": 4,
 "parameters": {"isolation": {"string_value": "process"}},
 "instance_group": [{"count": 2, "kind": "KIND_AUTO", "gpus": []}]}`))
	want := "# ours\nmax_batch_size: 4 # measured\ninstance_group [\n  {\n    count: 2\n  }\n]\n" +
		"parameters {\n  key: \"isolation\"\n  value {\n    string_value: \"process\"\n  }\n}\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestEditRefuses(t *testing.T) {
	for _, test := range []struct{ name, text, changes, want string }{
		{"a text that cannot be read", "max_batch_size: {", `{}`, "config.pbtxt:1"},
		{"no object", "", `[]`, "changes of a configuration"},
		{"an unknown field", "", `{"instances": 2}`, `unknown field "instances"`},
		{"the removal of an unknown field", "", `{"instances": null}`, "remove a field"},
	} {
		if _, err := Edit([]byte(test.text), []byte(test.changes)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestProblemsNameTheLine(t *testing.T) {
	text := []byte("name: \"m\"\nmax_batch_sise: 1\n")
	_, err := Parse(Pbtxt, text)
	if list := Problems(text, err); len(list) != 1 || list[0].Line != 2 ||
		!strings.HasPrefix(list[0].Text, "unknown field") {
		t.Errorf("%+v", list)
	}
	text = []byte("# head\ninstance_group { count: 0 }\n")
	list := Problems(text, fail("m", edgewise.Invalid, "instance_group[0]: count: want 1\nmodel \"m\": instance_group \"x\": another"))
	if len(list) != 2 || list[0].Line != 2 || list[0].Text != "instance_group[0]: count: want 1" ||
		list[1].Text != "instance_group \"x\": another" || list[1].Line != 2 {
		t.Errorf("%+v", list)
	}
}
