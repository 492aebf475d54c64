package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/test/gguf"
	"github.com/edgewise-ai/edgewise/test/processes"
	"github.com/edgewise-ai/edgewise/test/real"
)

var torchLoads = flag.Int("e2e.torch-loads", 3, "how often a model of PyTorch is loaded and unloaded; each takes seconds")

// torchConfigs are the configurations of the models that torch_models.py makes.
var torchConfigs = map[string]string{
	"vision": `
		max_batch_size: 8
		input [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, 32, 32 ] } ]
		output [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 10 ] } ]`,
	"sequence": `
		max_batch_size: 4
		input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
		output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] } ]
		sequence_batching {
			control_input [ { name: "start" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ]
			state [ { input_name: "state" output_name: "new_state" data_type: TYPE_FP32 dims: [ 8 ] } ]
		}`,
	"text": `
		max_batch_size: 8
		input [ { name: "TEXT__0" data_type: TYPE_STRING dims: [ 1 ] } ]
		output [
			{ name: "SCORES__0" data_type: TYPE_FP32 dims: [ 3 ] }, { name: "LABEL__1" data_type: TYPE_STRING dims: [ 1 ] }
		]`,
}

// torchCase is a request and torch's own answer.
type torchCase struct {
	Inputs  map[string]any
	Outputs []any
}

// torchModels makes the models, each in a folder that can be pushed, and returns the cases of each.
func torchModels(t *testing.T) (folder string, cases map[string][]torchCase) {
	t.Helper()
	folder, cases = t.TempDir(), map[string][]torchCase{}
	script := "../native/testdata/torch_models.py"
	if out, err := exec.Command("/usr/bin/python3", script, folder).CombinedOutput(); err != nil {
		t.Fatalf("%v (make torch installs Debian's python3-torch)\n%s", err, out)
	}
	for name, config := range torchConfigs {
		path := filepath.Join(folder, name, "cases.json")
		text, err := os.ReadFile(path)
		if err == nil {
			var list []torchCase
			err = json.Unmarshal(text, &list)
			cases[name] = list
		}
		if err == nil {
			err = os.Remove(path)
		}
		if err == nil {
			config = "platform: \"pytorch_libtorch\"\n" + config
			err = os.WriteFile(filepath.Join(folder, name, "config.pbtxt"), []byte(config), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder, cases
}

// flat returns the elements of nested lists, and their shape.
func flat(value any) (list []any, shape []int) {
	elements, ok := value.([]any)
	if !ok {
		return []any{value}, nil
	}
	for _, element := range elements {
		inner, rest := flat(element)
		list, shape = append(list, inner...), rest
	}
	return list, append([]int{len(elements)}, shape...)
}

// torchAnswer sends inputs, and returns the elements of each output by name.
func (b *box) torchAnswer(model string, inputs map[string]any, parameters string) (map[string][]any, error) {
	var tensors []map[string]any
	for name, value := range inputs {
		data, shape := flat(value)
		kind := "FP32"
		if _, ok := data[0].(string); ok {
			kind, shape = "BYTES", append(shape, 1)
		}
		tensors = append(tensors, map[string]any{"name": name, "datatype": kind, "shape": shape, "data": data})
	}
	list, err := json.Marshal(tensors)
	if err != nil {
		return nil, err
	}
	status, text := b.send(http.MethodPost, "/v2/models/"+model+"/infer",
		[]byte(fmt.Sprintf(`{"inputs": %s, "parameters": {%s}}`, list, parameters)), "Content-Type", mimeJSON)
	if status != http.StatusOK {
		return nil, fmt.Errorf("%d %s", status, text)
	}
	var answer struct {
		Outputs []struct {
			Name string
			Data []any
		}
	}
	err = json.Unmarshal([]byte(text), &answer)
	outputs := map[string][]any{}
	for _, output := range answer.Outputs {
		outputs[output.Name] = output.Data
	}
	return outputs, err
}

// alike tells whether elements are equal but for rounding.
func alike(got []any, want any) bool {
	list, _ := flat(want)
	if len(got) != len(list) {
		return false
	}
	for i := range list {
		x, number := got[i].(float64)
		y, _ := list[i].(float64)
		if number && !(math.Abs(x-y) <= 1e-6+1e-5*math.Abs(y)) || !number && got[i] != list[i] {
			return false
		}
	}
	return true
}

// TestModelsOfPyTorchAreServed pushes a model of pictures, one of sequences with a state, and one of texts: in the
// sandbox they answer as torch does. A crash costs the model a moment, and a load leaves no memory.
func TestModelsOfPyTorchAreServed(t *testing.T) {
	t.Parallel()
	folder, cases := torchModels(t)
	b := serveReady(t, t.TempDir())
	for name := range torchConfigs {
		b.must("model", "push", name, filepath.Join(folder, name))
	}
	b.answersAsTorch(t, cases)

	pids := slices.DeleteFunc(childrenOf(t, b.cmd.Process.Pid), func(pid int) bool {
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || !bytes.Contains(title, []byte("pytorch"))
	})
	began := func(pid int) uint64 {
		ticks, err := processes.Began(pid)
		if err != nil {
			t.Fatal(err)
		}
		return ticks
	}
	slices.SortFunc(pids, func(a, b int) int { return cmp.Compare(began(a), began(b)) })
	if len(pids) != 2*len(torchConfigs) {
		t.Fatalf("the processes %v, want one and a spare one of each model", pids)
	}
	for n, pid := range pids {
		if n%2 == 1 { // the spare one, which has begun after the other
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGSEGV); err != nil {
			t.Fatal(err)
		}
	}
	crashed := time.Now()
	for name := range torchConfigs { // each with its next process
		inputs := torchInputs(name, cases[name][0])
		await(t, name+" answers again", func() bool {
			_, err := b.torchAnswer(name, inputs, `"sequence_id": 7, "sequence_start": true`)
			return err == nil
		})
	}
	t.Logf("all three answer again %v after their processes were killed", time.Since(crashed))
	b.answersAsTorch(t, cases)
	b.loadsLeaveNoMemory(t)
	b.stop()
}

// torchInputs are the inputs of a case that a client sends, by their names in the configuration.
func torchInputs(model string, c torchCase) map[string]any {
	switch model {
	case "vision":
		return map[string]any{"INPUT__0": c.Inputs["x"]}
	case "sequence":
		return map[string]any{"x": c.Inputs["x"]}
	}
	return map[string]any{"TEXT__0": c.Inputs["text"]}
}

func (b *box) answersAsTorch(t *testing.T, cases map[string][]torchCase) {
	t.Helper()
	for name, outputs := range map[string][]string{
		"vision": {"OUTPUT__0"}, "sequence": {"y"}, "text": {"SCORES__0", "LABEL__1"},
	} {
		for i, c := range cases[name] {
			parameters := ""
			if name == "sequence" {
				parameters = fmt.Sprintf(`"sequence_id": 5, "sequence_start": %v, "sequence_end": %v`, i == 0, i == len(cases[name])-1)
			}
			got, err := b.torchAnswer(name, torchInputs(name, c), parameters)
			if err != nil {
				t.Fatalf("%s %d: %v", name, i, err)
			}
			for o, output := range outputs {
				if !alike(got[output], c.Outputs[o]) {
					t.Errorf("%s %d: %s is %v, torch's is %v", name, i, output, got[output], c.Outputs[o])
				}
			}
		}
	}
}

// loadsLeaveNoMemory loads and unloads a model: the box is as large as before, and no process is left.
func (b *box) loadsLeaveNoMemory(t *testing.T) {
	t.Helper()
	before := 2 * len(torchConfigs) // a process and a spare one of each model
	own := func() int64 {
		bytes, _, err := processes.PrivateBytes(b.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	first := int64(0)
	began := time.Now()
	for i := range *torchLoads {
		for _, verb := range []string{"unload", "load"} {
			if status, text := b.send(http.MethodPost, "/v2/repository/models/vision/"+verb, nil); status != http.StatusOK {
				t.Fatalf("%s %d: %d %s", verb, i, status, text)
			}
		}
		if i == *torchLoads/10 {
			first = own()
		}
	}
	t.Logf("%d loads in %v: %d bytes after a tenth of them, %d at the end", *torchLoads, time.Since(began), first, own())
	if last := own(); last > first+32<<20 {
		t.Errorf("the box grew from %d to %d bytes in %d loads", first, last, *torchLoads)
	}
	await(t, "as many processes as before", func() bool { return len(childrenOf(t, b.cmd.Process.Pid)) == before })
	if log := b.output(); strings.Contains(log, "panic") {
		t.Errorf("the log has a panic:\n%s", log)
	}
}

// TestTheExampleInPerlKeepsEachRule runs a backend that was written after docs/backends.md alone, in its sandbox.
func TestTheExampleInPerlKeepsEachRule(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(real.Program(t), "backend", "test", "../../docs/examples/perl").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTextsOfAGGUFFileAreStreamed pushes a generated language model, and wants what its definition says.
func TestTextsOfAGGUFFileAreStreamed(t *testing.T) {
	t.Parallel()
	model := gguf.New(3, 0.5)
	path := filepath.Join(t.TempDir(), "small.gguf")
	if err := os.WriteFile(path, model.File(), 0o600); err != nil {
		t.Fatal(err)
	}
	b := serveReady(t, t.TempDir())
	b.must("model", "push", "small", path)
	for _, prompt := range []string{"abc", "hello w", "xyz"} {
		status, events := b.send(http.MethodPost, "/v2/models/small/generate_stream",
			[]byte(fmt.Sprintf(`{"text_input": %q, "max_tokens": 40, "temperature": 0}`, prompt)), "Content-Type", mimeJSON)
		if status != http.StatusOK {
			t.Fatalf("%q: %d %s", prompt, status, events)
		}
		text, responses := "", 0
		for _, event := range strings.Split(strings.TrimSpace(events), "\n\n") {
			var response struct {
				Text string `json:"text_output"`
			}
			if err := json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &response); err != nil {
				t.Fatalf("%q: %v in %q", prompt, err, event)
			}
			text, responses = text+response.Text, responses+1
		}
		want, _, _ := model.Greedy(prompt, 40)
		if text != string([]rune(string(want))) || responses < 5 {
			t.Errorf("%q: got %q in %d responses, want %q", prompt, text, responses, want)
		}
	}
	b.stop()
}
