package native_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// frameworkCommand serves models of a framework over what stands in for it in testdata/standins: the packages
// themselves are not in Debian, and their libraries not in a registry. What is tested is the backend's own part.
func frameworkCommand(name string, paths ...string) []string {
	path := strings.Join(append(paths, "../../backends/python"), ":")
	return []string{"/usr/bin/env", "PYTHONPATH=" + path, "/usr/bin/python3", "../../backends/" + name + "/serve.py"}
}

const standIns = "testdata/standins"

func TestFrameworksThatStandInsStandForAreServed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, framework, file, content, parameters, note string
		texts                                            bool
	}{
		{
			"TensorFlow", "tensorflow", "model.savedmodel/standin.json",
			`{"tag": "serve", "signatures": {"serving_default": 2}}`, "",
			"TensorFlow 2.99 on CPU:0, signature serving_default", true,
		},
		{
			"a signature of TensorFlow's", "tensorflow", "model.savedmodel/standin.json",
			`{"tag": "mine", "signatures": {"serving_default": 3, "twice": 2}}`,
			`"TF_SIGNATURE_DEF": {"string_value": "twice"}, "TF_GRAPH_TAG": {"string_value": "mine"}`,
			"TensorFlow 2.99 on CPU:0, signature twice", true,
		},
		{
			"OpenVINO", "openvino", "model.xml", "", `"PERFORMANCE_HINT": {"string_value": "LATENCY"}`,
			"OpenVINO 9.1 on the CPU (a stand-in)", false,
		},
		{"LiteRT", "litert", "model.tflite", "", "", "LiteRT (ai_edge_litert 1.9) on the CPU, no signature", false},
		{
			"a signature of LiteRT's", "litert", "model.tflite", "signature", "",
			"LiteRT (ai_edge_litert 1.9) on the CPU, signature serving_default", false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			path := filepath.Join(folder, c.file)
			err := os.MkdirAll(filepath.Dir(path), 0o700)
			if err == nil {
				err = os.WriteFile(path, []byte(c.content), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			s := serve(t, frameworkCommand(c.framework, standIns), folder, `{"name": "m", "parameters": {`+c.parameters+`}}`)
			if r := s.ready; r.MaxBatchSize == nil || *r.MaxBatchSize != 4 || r.Inputs[0].Name != "x" ||
				r.Inputs[0].Type != edgewise.FP32 || !r.Inputs[0].Dims.Equal(edgewise.Shape{3}) || r.Outputs[0].Name != "y" {
				t.Errorf("it is described as %+v", r)
			}
			if s.ready.Note != c.note {
				t.Errorf("the note is %q, want %q", s.ready.Note, c.note)
			}
			var calls []*request
			for i := range 3 {
				inputs := []edgewise.Tensor{tensor("x", []any{[]any{float64(i), 1.0, 2.0}})}
				if c.texts {
					inputs = append(inputs, tensor("s", []any{[]any{"text"}}))
				}
				calls = append(calls, call(nil, inputs...))
			}
			got, errs := s.answers(calls...)
			for i := range got {
				if want := tensor("y", []any{[]any{2 * float64(i), 2.0, 4.0}}); errs[i] != nil || !near(got[i]["y"], want) {
					t.Errorf("call %d: got %v (%v)", i, got[i]["y"], errs[i])
				}
				if c.texts && !near(got[i]["t"], tensor("t", []any{[]any{"<text>"}})) {
					t.Errorf("call %d: got %q", i, got[i]["t"].Data)
				}
			}
		})
	}
}

func TestAFrameworkThatIsNotInstalledIsNamed(t *testing.T) {
	t.Parallel()
	for framework, want := range map[string]struct{ file, message string }{
		"tensorflow": {"model.savedmodel/x", "No module named 'tensorflow'"},
		"openvino":   {"model.xml", "No module named 'openvino'"},
		"litert":     {"model.tflite", "none of the modules ai_edge_litert.interpreter"},
	} {
		folder := t.TempDir()
		path := filepath.Join(folder, want.file)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		command := frameworkCommand(framework)
		text, err := exec.CommandContext(t.Context(), command[0], append(command[1:], "--check")...).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(text), "/usr/bin/python3 lacks the package ") {
			t.Errorf("%s: asked what it lacks it says %q (%v)", framework, text, err)
		}
		_, err = try(t, command, folder, `{"name": "m"}`)
		if err == nil || !strings.Contains(err.Error(), want.message) {
			t.Errorf("%s: got the error %v", framework, err)
		}
	}
}
