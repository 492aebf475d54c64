package step

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/wat"
	"github.com/edgewise-ai/edgewise/wasm"
)

// TestMain lets the test program be the compiler that a backend of steps starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == wasm.CompilerVerb {
		os.Exit(wasm.RunCompiler())
	}
	os.Exit(m.Run())
}

// echo returns its input, an INT32 tensor of any length.
const echo = `
(memory (export "memory") 2)
(data (i32.const 100) "\80\00\00\00{\22name\22:\22echo\22,"
  "\22inputs\22:[{\22name\22:\22x\22,\22datatype\22:\22INT32\22,\22shape\22:[-1]}],"
  "\22outputs\22:[{\22name\22:\22x\22,\22datatype\22:\22INT32\22,\22shape\22:[-1]}]}")
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) i32.const 4096)
(func (export "edgewise_describe") (result i32) i32.const 100)
(func (export "edgewise_process") (param i32) (result i32) local.get 0)`

func echoStep(t *testing.T) (dir string, l *Loaded) {
	t.Helper()
	module, err := wat.Assemble(echo)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	write(t, filepath.Join(dir, ModuleFile), string(module))
	if l, err = Load(t.Context(), dir, Limits{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir, l
}

const request = `"request": {"inputs": [{"name": "x", "datatype": "INT32", "shape": [2], "data": [3, -4]}]}`

func only(t *testing.T, dir string) *Case {
	t.Helper()
	cases, err := Cases(filepath.Join(dir, CasesFolder))
	if err != nil || len(cases) != 1 {
		t.Fatalf("%v, %v", cases, err)
	}
	return &cases[0]
}

// TestAnAnswerIsRecordedOnce records what a case without a response is answered; the rest of its file stays, and it
// passes then.
func TestAnAnswerIsRecordedOnce(t *testing.T) {
	dir, l := echoStep(t)
	for _, head := range []string{`{"description": "kept",` + "\n  ", `{`} {
		path := filepath.Join(dir, CasesFolder, "one.json")
		write(t, path, head+request+"}\n")
		c := only(t, dir)
		if outcome, err := l.Check(t.Context(), c); err != nil || !strings.Contains(outcome.Problem, "step test --record") {
			t.Errorf("before: %+v, %v", outcome, err)
		}
		if written, err := l.Record(t.Context(), c); err != nil || !written {
			t.Fatalf("%v, %v", written, err)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), head+request) || !json.Valid(text) {
			t.Errorf("%s: %v", text, err)
		}
		if c = only(t, dir); c.Response == nil {
			t.Fatalf("%s", text)
		}
		if outcome, err := l.Check(t.Context(), c); err != nil || outcome.Problem != "" {
			t.Errorf("after: %+v, %v", outcome, err)
		}
		if written, err := l.Record(t.Context(), c); err != nil || written {
			t.Errorf("a case with a response is recorded again: %v, %v", written, err)
		}
	}
}

func TestANewCaseHoldsRequestAndAnswer(t *testing.T) {
	dir, l := echoStep(t)
	in := edgewise.Tensor{Name: "x", Type: edgewise.Int32, Shape: edgewise.Shape{1}, Data: []byte{7, 0, 0, 0}}
	req := &edgewise.Request{
		Model: edgewise.ModelID{Name: "echo"}, Inputs: []edgewise.Tensor{in},
		Parameters: map[string]any{"factor": int64(2)},
	}
	response, err := l.Infer(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Release()
	if _, err := NewCase(dir, "seven", req, response); err != nil {
		t.Fatal(err)
	}
	if outcome, err := l.Check(t.Context(), only(t, dir)); err != nil || outcome.Problem != "" {
		t.Errorf("%+v, %v", outcome, err)
	}
	_, err = NewCase(dir, "seven", req, response)
	fails(t, err, edgewise.Exists, "seven.json is there already")
	_, err = NewCase(dir, "../seven", req, response)
	fails(t, err, edgewise.Invalid, `case "../seven"`)
}

// TestErrorsNameTheCase makes each kind of mistake in a case.
func TestErrorsNameTheCase(t *testing.T) {
	dir, l := echoStep(t)
	for name, text := range map[string]string{
		"no input":       `{"request": {"inputs": []}, "response": {"outputs": []}}`,
		"other type":     `{"request": {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}, "response": {"outputs": []}}`,
		"no such input":  `{"request": {"inputs": [{"name": "z", "datatype": "FP32", "shape": [1], "data": [1]}]}, "response": {"outputs": []}}`,
		"no such file":   `{"files": {"x": "nothing.npy"}, "response": {"outputs": []}}`,
		"file of none":   `{"files": {"z": "nothing.npy"}, ` + request + `, "response": {"outputs": []}}`,
		"no such output": `{` + request + `, "response": {"outputs": [{"name": "z", "datatype": "INT32", "shape": [0], "data": []}]}}`,
	} {
		write(t, filepath.Join(dir, CasesFolder, "culprit.json"), text)
		_, err := l.Check(t.Context(), only(t, dir))
		fails(t, err, edgewise.Invalid, `case "culprit": `)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestNothingIsLeftOfAStep loads a step, and one that fails to load, and looks for what stays among temporary files.
func TestNothingIsLeftOfAStep(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	module, err := wat.Assemble(echo)
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{string(module), "no module"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, ModuleFile), content)
		if l, err := Load(t.Context(), dir, Limits{}); err == nil {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		left, err := os.ReadDir(temporary)
		if err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}
