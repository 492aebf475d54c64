package native_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

var torch struct {
	sync.Once
	folder string
}

// torchModels returns the folder of the models that torch_models.py makes, and the command that serves them.
func torchModels(t *testing.T) (folder string, command []string) {
	t.Helper()
	torch.Do(func() {
		made, err := os.MkdirTemp("", "edgewise-torch")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("/usr/bin/python3", "testdata/torch_models.py", made).CombinedOutput(); err != nil {
			t.Fatalf("%v (make torch installs Debian's python3-torch)\n%s", err, out)
		}
		torch.folder = made
	})
	if torch.folder == "" {
		t.Fatal("no models were made")
	}
	return torch.folder, frameworkCommand("pytorch")
}

// torchCase is a request and torch's own answer.
type torchCase struct {
	Inputs  map[string]any
	Outputs []any
}

func torchCases(t *testing.T, folder string) (cases []torchCase) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "cases.json"))
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// tensor makes a tensor of nested lists of numbers, or of texts.
func tensor(name string, value any) edgewise.Tensor {
	out := edgewise.Tensor{Name: name, Type: edgewise.FP32}
	var add func(value any, depth int)
	add = func(value any, depth int) {
		switch v := value.(type) {
		case []any:
			if depth == len(out.Shape) {
				out.Shape = append(out.Shape, int64(len(v)))
			}
			for _, element := range v {
				add(element, depth+1)
			}
		case float64:
			out.Data = binary.LittleEndian.AppendUint32(out.Data, math.Float32bits(float32(v)))
		case string:
			out.Type, out.Data = edgewise.Bytes, edgewise.AppendElement(out.Data, v)
		}
	}
	add(value, 0)
	return out
}

// near tells whether two tensors are equal but for rounding.
func near(a, b edgewise.Tensor) bool {
	if a.Type != b.Type || len(a.Data) != len(b.Data) {
		return false
	}
	if a.Type != edgewise.FP32 {
		return string(a.Data) == string(b.Data)
	}
	for i := 0; i < len(a.Data); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(a.Data[i:]))
		y := math.Float32frombits(binary.LittleEndian.Uint32(b.Data[i:]))
		if d := math.Abs(float64(x - y)); !(d <= 1e-6+1e-5*math.Abs(float64(y))) {
			return false
		}
	}
	return true
}

// list writes inputs or outputs of a configuration: "x FP32 3,32,32".
func list(specs ...string) string {
	parts := make([]string, 0, len(specs))
	for _, spec := range specs {
		f := strings.Fields(spec)
		parts = append(parts, fmt.Sprintf(`{"name": %q, "data_type": "TYPE_%s", "dims": [%s]}`, f[0], f[1],
			strings.Join(f[2:], "")))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// answers runs a batch and returns the outputs of its calls by name, or the error.
func (s *served) answers(calls ...*request) (outputs []map[string]edgewise.Tensor, errs []error) {
	s.t.Helper()
	batch := make([]*backend.Call, len(calls))
	for i, r := range calls {
		batch[i] = &r.Call
	}
	if err := s.client.Run(context.Background(), batch); err != nil {
		s.t.Fatal(err)
	}
	for _, r := range calls {
		response := <-r.responses
		all := map[string]edgewise.Tensor{}
		for _, output := range response.Outputs {
			output.Data = append([]byte{}, output.Data...)
			all[output.Name] = output
		}
		outputs, errs = append(outputs, all), append(errs, response.Error)
		response.Taken()
	}
	return outputs, errs
}

func call(parameters map[string]any, inputs ...edgewise.Tensor) *request {
	r := &request{responses: make(chan *backend.Response, 4)}
	r.Call = backend.Call{
		Request: backend.Request{ID: "id", Parameters: parameters}, Tensors: inputs,
		Answer: func(response *backend.Response) { r.responses <- response },
	}
	return r
}

func TestPyTorchsModelsAnswerAsTorchDoes(t *testing.T) {
	t.Parallel()
	folder, command := torchModels(t)
	for _, c := range []struct {
		name, configuration string
		inputs              map[string]string // names in the configuration by those of the case
		outputs             []string
	}{
		{
			"vision", `"max_batch_size": 8, "input": ` + list("INPUT__0 FP32 3,32,32") + `,
			"output": ` + list("OUTPUT__0 FP32 10"),
			map[string]string{"x": "INPUT__0"},
			[]string{"OUTPUT__0"},
		},
		{
			"sequence", `"max_batch_size": 4, "input": ` + list("x FP32 4", "start FP32 1", "state FP32 8") + `,
			"output": ` + list("y FP32 2", "new_state FP32 8"),
			map[string]string{"x": "x", "start": "start", "state": "state"},
			[]string{"y", "new_state"},
		},
		{
			"text", `"max_batch_size": 8, "input": ` + list("TEXT__0 STRING 1") + `,
			"output": ` + list("LABEL__1 STRING 1", "SCORES__0 FP32 3"),
			map[string]string{"text": "TEXT__0"},
			[]string{"SCORES__0", "LABEL__1"},
		},
		{
			"named", `"input": ` + list("subtrahend FP32 -1,3", "minuend FP32 -1,3") + `,
			"output": ` + list("DIFFERENCE FP32 -1,3"),
			map[string]string{"minuend": "minuend", "subtrahend": "subtrahend"},
			[]string{"DIFFERENCE"},
		},
		{
			"named", `"input": ` + list("A FP32 -1,3", "B FP32 -1,3") + `, "output": ` + list("DIFFERENCE FP32 -1,3"),
			map[string]string{"minuend": "A", "subtrahend": "B"},
			[]string{"DIFFERENCE"},
		},
		{
			"dictionary", `"input": ` + list("a FP32 -1,3", "b FP32 -1,3") + `,
			"output": ` + list("product FP32 -1,3", "sum FP32 -1,3"),
			map[string]string{"a": "a", "b": "b"},
			[]string{"product", "sum"},
		},
	} {
		cases := torchCases(t, filepath.Join(folder, c.name))
		s := serve(t, command, filepath.Join(folder, c.name), `{"name": "m", `+c.configuration+`}`)
		for _, together := range []bool{false, true} {
			var calls []*request
			for _, one := range cases {
				calls = append(calls, one.call(c.inputs))
			}
			got, errs := s.batches(together, calls)
			for i, one := range cases {
				for o, name := range c.outputs {
					if want := tensor(name, one.Outputs[o]); errs[i] != nil || !near(got[i][name], want) {
						t.Errorf("%s %d, together %v: got %s %v (%v), want %v", c.name, i, together, name, got[i][name].Shape,
							errs[i], want.Shape)
					}
				}
			}
		}
	}
}

// call makes a request of a case, whose inputs have other names in the configuration.
func (c *torchCase) call(names map[string]string) *request {
	var inputs []edgewise.Tensor
	for name, value := range c.Inputs {
		in := tensor(names[name], value)
		if in.Type == edgewise.Bytes {
			in.Shape = append(in.Shape, 1)
		}
		inputs = append(inputs, in)
	}
	return call(nil, inputs...)
}

// batches runs calls as one batch, or each as one.
func (s *served) batches(together bool, calls []*request) (outputs []map[string]edgewise.Tensor, errs []error) {
	s.t.Helper()
	if together {
		return s.answers(calls...)
	}
	for _, one := range calls {
		o, e := s.answers(one)
		outputs, errs = append(outputs, o...), append(errs, e...)
	}
	return outputs, errs
}

func TestPyTorchsFaultsAreErrorsOfTheirRequests(t *testing.T) {
	t.Parallel()
	folder, command := torchModels(t)
	s := serve(t, command, filepath.Join(folder, "parts"),
		`{"name": "m", "input": `+list("x FP32 -1,3")+`, "output": `+list("y FP32 -1,3")+`}`)
	row := func(v float64) edgewise.Tensor { return tensor("x", []any{[]any{v, v, v}}) }
	wide := edgewise.Tensor{Name: "x", Type: edgewise.Uint16, Shape: edgewise.Shape{1, 3}, Data: make([]byte, 6)}
	got, errs := s.answers(call(nil, row(1)), call(nil, row(50)), call(nil, row(-1)), call(nil, wide), call(nil, row(2)))
	for i, want := range []string{
		"", "too much", "output 'y' is of the data type TYPE_FP64, the configuration says TYPE_FP32",
		"input 'x': PyTorch has no TYPE_UINT16", "",
	} {
		if want == "" && (errs[i] != nil || len(got[i]["y"].Data) != 12) ||
			want != "" && (errs[i] == nil || !strings.Contains(errs[i].Error(), want)) {
			t.Errorf("call %d: got %v (%v), want %q", i, got[i], errs[i], want)
		}
	}
}

func TestPyTorchsFilesThatCannotBeServedSayWhy(t *testing.T) {
	t.Parallel()
	folder, command := torchModels(t)
	weights := t.TempDir()
	data, err := os.ReadFile(filepath.Join(folder, "weights.pt"))
	for name, content := range map[string][]byte{"model.pt": data, "text.pt": []byte("no model"), "model.pt2": data} {
		if err == nil {
			err = os.WriteFile(filepath.Join(weights, name), content, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	tensors := `"input": ` + list("x FP32 3") + `, "output": ` + list("y FP32 3")
	named := filepath.Join(folder, "named")
	for want, c := range map[string]struct{ folder, configuration string }{
		"model.pt is not a TorchScript file": {weights, tensors},
		"text.pt is not a TorchScript file":  {weights, tensors + `, "default_model_filename": "text.pt"`},
		"which PyTorch 1":                    {weights, tensors + `, "default_model_filename": "model.pt2"`},
		"other.pt is missing":                {weights, tensors + `, "default_model_filename": "other.pt"`},
		"declare them in config.pbtxt. Its function is forward(minuend: Tensor, subtrahend: Tensor)": {
			named, `"max_batch_size": 0`,
		},
		"the inputs a, b, c are not the arguments of forward(minuend": {
			named, `"input": ` + list("a FP32 3", "b FP32 3", "c FP32 3") + `, "output": ` + list("y FP32 3"),
		},
	} {
		if _, err := try(t, command, c.folder, `{"name": "m", `+c.configuration+`}`); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v", want, err)
		}
	}
}
