package kserve

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
)

var model = edgewise.ModelID{Name: "m", Version: 2}

// binaryPart stands between the two parts of a body in tables.
const binaryPart = "|then|"

// decode decodes a body whose binary part, if any, follows binaryPart.
func decode(t *testing.T, body string) *InferRequest {
	t.Helper()
	text, rest, split := strings.Cut(body, binaryPart)
	size := -1
	if split {
		size = len(text)
	}
	r, err := NewDecoder(Limits{}).Infer(model, []byte(text+rest), size)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRequestsAreDecoded(t *testing.T) {
	one := []byte{0, 0, 128, 63}
	tests := []struct {
		name, body string
		want       edgewise.Request
		answers    []Answer
		binary     bool
	}{
		{
			name: "the least", body: `{"inputs":[]}`,
		},
		{
			name: "white space everywhere", body: " {\n\t\"inputs\" : [ { \"name\" : \"x\" , \"shape\" : [ 1 , 1 ] , " +
				"\"datatype\" : \"FP32\" , \"data\" : [ [ 1 ] ] } ] } \r\n",
			want: edgewise.Request{Inputs: []edgewise.Tensor{{
				Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 1},
				Data: one,
			}}},
		},
		{
			name: "data before what it depends on, in a ragged nest",
			body: `{"inputs":[{"data":[[1,[]],[[0]],1],"datatype":"INT8","shape":[3],"name":"x"}]}`,
			want: edgewise.Request{Inputs: []edgewise.Tensor{{
				Name: "x", Type: edgewise.Int8, Shape: edgewise.Shape{3},
				Data: []byte{1, 0, 1},
			}}},
		},
		{
			name: "arrays between numbers", body: `{"inputs":[{"name":"x","datatype":"FP32","shape":[3],"data":[1 ,[1], 1]}]}`,
			want: edgewise.Request{Inputs: []edgewise.Tensor{{
				Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{3},
				Data: append(append(append([]byte{}, one...), one...), one...),
			}}},
		},
		{
			name: "a scalar", body: `{"inputs":[{"name":"x","datatype":"FP32","shape":[],"data":[1]}]}`,
			want: edgewise.Request{Inputs: []edgewise.Tensor{{
				Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{},
				Data: one,
			}}},
		},
		{
			name: "no elements, with and without data",
			body: `{"inputs":[{"name":"x","datatype":"FP32","shape":[0,3]},{"name":"y","datatype":"BYTES","shape":[0],"data":[[]]}]}`,
			want: edgewise.Request{Inputs: []edgewise.Tensor{
				{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{0, 3}},
				{Name: "y", Type: edgewise.Bytes, Shape: edgewise.Shape{0}, Data: []byte{}},
			}},
		},
		{
			name: "strings with every escape",
			body: `{"inputs":[{"name":"x","datatype":"BYTES","shape":[2,2],"data":[["","\"\\\/\b\f\n\r\t"],` +
				`["\u00e9\ud83d\ude00é","plain text that is long enough"]]}]}`,
			want: edgewise.Request{Inputs: []edgewise.Tensor{{
				Name: "x", Type: edgewise.Bytes, Shape: edgewise.Shape{2, 2},
				Data: []byte("\x00\x00\x00\x00\x08\x00\x00\x00\"\\/\b\f\n\r\t\x08\x00\x00\x00é\U0001f600é\x1e\x00\x00\x00plain " +
					"text that is long enough"),
			}}},
		},
		{
			name: "binary and JSON inputs mixed",
			body: `{"inputs":[{"name":"a","datatype":"INT8","shape":[2],"parameters":{"binary_data_size":2,"other":[1]}},` +
				`{"name":"b","datatype":"INT8","shape":[1],"data":[7]},{"name":"c","datatype":"INT8","shape":[1],` +
				`"parameters":{"binary_data_size":1}}]}` + binaryPart + "ABC",
			want: edgewise.Request{Inputs: []edgewise.Tensor{
				{Name: "a", Type: edgewise.Int8, Shape: edgewise.Shape{2}, Data: []byte("AB")},
				{Name: "b", Type: edgewise.Int8, Shape: edgewise.Shape{1}, Data: []byte{7}},
				{Name: "c", Type: edgewise.Int8, Shape: edgewise.Shape{1}, Data: []byte("C")},
			}},
		},
		{
			name: "parameters of all kinds",
			body: `{"id":"a\u0062","parameters":{"sequence_id":18446744073709551615,"sequence_start":true,` +
				`"sequence_end":false,"priority":3,"timeout":1500,` +
				`"binary_data_output":true,"s":"t","i":-5,"b":true,"f":1.5,"big":9223372036854775808},"inputs":[]}`,
			want: edgewise.Request{
				ID: "ab", Priority: 3, Timeout: 1500 * time.Microsecond,
				Sequence:   edgewise.Sequence{ID: math.MaxUint64, Start: true},
				Parameters: map[string]any{"s": "t", "i": int64(-5), "b": true, "f": 1.5, "big": 9223372036854775808.0},
			},
			binary: true,
		},
		{
			name: "a sequence with a name, the longest timeout",
			body: `{"parameters":{"sequence_id":"s1","sequence_end":true,"timeout":18446744073709551615},"inputs":[]}`,
			want: edgewise.Request{
				Sequence: edgewise.Sequence{Name: "s1", End: true},
				Timeout:  math.MaxInt64 / 1000 * time.Microsecond,
			},
		},
		{
			name: "outputs",
			body: `{"inputs":[],"outputs":[{"name":"y"},{"parameters":{"binary_data":true,"x":null},"name":"z"},` +
				`{"name":"c","parameters":{"classification":3}}]}`,
			want:    edgewise.Request{Outputs: []string{"y", "z", "c"}},
			answers: []Answer{{Name: "y"}, {Name: "z", Binary: true}, {Name: "c", Classification: 3}},
		},
		{
			name: "unknown members, a model_name among them",
			body: `{"model_name":"other","x":[{"a":[null,true,-1.5e+3,"\n"]},{}],"inputs":[{"name":"x","zzz":{},` +
				`"datatype":"UINT8","shape":[1],"data":[7]}]}`,
			want: edgewise.Request{Inputs: []edgewise.Tensor{{
				Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{1},
				Data: []byte{7},
			}}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := decode(t, test.body)
			test.want.Model = model
			if diff := cmp.Diff(test.want, r.Request); diff != "" {
				t.Error(diff)
			}
			if !cmp.Equal(test.answers, r.Answers) || r.BinaryOutput != test.binary {
				t.Errorf("answers %v, binary %v; want %v, %v", r.Answers, r.BinaryOutput, test.answers, test.binary)
			}
		})
	}
}

func TestBinaryInputsAreNotCopied(t *testing.T) {
	text := `{"inputs":[{"name":"a","datatype":"INT8","shape":[3],"parameters":{"binary_data_size":3}}]}`
	body := []byte(text + "ABC")
	r, err := NewDecoder(Limits{}).Infer(model, body, len(text))
	if err != nil {
		t.Fatal(err)
	}
	if &r.Inputs[0].Data[0] != &body[len(text)] || cap(r.Inputs[0].Data) != 3 {
		t.Error("the tensor does not alias the body, or reaches beyond its bytes")
	}
}

func TestTensorsFromJSONAreAligned(t *testing.T) {
	body := []byte(
		`{"inputs":[{"name":"a","datatype":"INT8","shape":[3],"data":[1,2,3]},{"name":"b","datatype":"BYTES","shape":[1],` +
			`"data":["abc"]},{"name":"c","datatype":"FP32","shape":[1],"data":[1]}]}`)
	d := NewDecoder(Limits{})
	for range 10 {
		r, err := d.Infer(model, body, -1)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range r.Inputs {
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(in.Data))); at%alignment != 0 {
				t.Errorf("%s is at %x", in.Name, at)
			}
		}
		r.Release()
	}
}

func TestReleasedRequestsLeaveNothingBehind(t *testing.T) {
	d := NewDecoder(Limits{})
	full := []byte(`{"id":"1","parameters":{"a":1,"binary_data_output":true,"sequence_id":1,"timeout":5},` + goodX +
		`,"outputs":[{"name":"y"}]}`)
	for range 100 {
		r, err := d.Infer(model, full, -1)
		if err != nil {
			t.Fatal(err)
		}
		r.Classes.Batched = true
		r.Release()
		r.Release() // does nothing
		if r, err = d.Infer(model, []byte(`{"inputs":[]}`), -1); err != nil {
			t.Fatal(err)
		}
		if r.ID != "" || r.Parameters != nil || len(r.Inputs)+len(r.Outputs)+len(r.Answers) != 0 || r.BinaryOutput ||
			r.Sequence.Active() || r.Timeout != 0 || r.Classes.Batched {
			t.Fatalf("left behind: %+v", r)
		}
		r.Release()
	}
}

func TestOneDecoderServesManyGoroutines(t *testing.T) {
	d := NewDecoder(Limits{})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			value := byte('0' + worker)
			body := []byte(`{"inputs":[{"name":"x` + string(value) + `","shape":[64],"datatype":"UINT8","data":[` +
				strings.Repeat(string(value)+",", 63) + string(value) + `]}]}`)
			for range 200 {
				r, err := d.Infer(model, body, -1)
				if err != nil {
					t.Error(err)
					return
				}
				if in := r.Inputs[0]; in.Name != "x"+string(value) ||
					strings.Trim(string(in.Data), string([]byte{value - '0'})) != "" {
					t.Errorf("worker %d got %v", worker, in)
				}
				r.Release()
			}
		})
	}
	all.Wait()
}

func TestSmallRequestsAllocateAtMostTwice(t *testing.T) {
	d := NewDecoder(Limits{})
	body := []byte(tinyBody)
	least := math.Inf(1)
	for range 50 { // the race detector drops pooled requests now and then
		least = min(least, testing.AllocsPerRun(1, func() {
			r, err := d.Infer(model, body, -1)
			if err != nil {
				t.Fatal(err)
			}
			r.Release()
		}))
	}
	if least > 2 {
		t.Errorf("%v allocations, want at most 2", least)
	}
}

func TestMemoryKeptForLaterRequestsIsBound(t *testing.T) {
	var a arena
	a.alloc(arenaKept + 1)
	if a.reset(); a.block != nil {
		t.Errorf("a block of %d bytes was kept", len(a.block))
	}
	a.alloc(100)
	a.alloc(arenaKept)
	if a.reset(); a.want > arenaKept {
		t.Errorf("the next block would have %d bytes", a.want)
	}
	r := &InferRequest{names: map[string]string{}}
	for i := range 10 * namesKept {
		r.intern([]byte{byte(i), byte(i >> 8), 'x'})
	}
	if long := strings.Repeat("n", nameSizeKept+1); r.intern([]byte(long)) != long || r.names[long] != "" ||
		len(r.names) > namesKept {
		t.Errorf("%d names are kept, or one of %d bytes", len(r.names), len(long))
	}
}

func TestShapesThatTheBodyCannotFillTakeNoMemory(t *testing.T) {
	body := []byte(`{"inputs":[{"name":"x","datatype":"FP64","shape":[16000000],"data":[1,2,3]}]}`)
	d := NewDecoder(Limits{})
	if n := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Infer(model, body, -1); err == nil {
				b.Fatal("accepted")
			}
		}
	}).AllocedBytesPerOp(); n > 64<<10 {
		t.Errorf("%d bytes were allocated for three elements", n)
	}
}

func TestFilesAsBodies(t *testing.T) {
	file := edgewise.ModelInput{Name: "x", DataType: edgewise.Bytes, Dims: edgewise.Shape{1}}
	hint := edgewise.ModelInput{Name: "h", DataType: edgewise.FP32, Dims: edgewise.Shape{1}, Optional: true}
	with := func(change func(*edgewise.ModelInput)) []edgewise.ModelInput {
		in := file
		change(&in)
		return []edgewise.ModelInput{in}
	}
	const refused = "model 'm' takes no file as the body of a request: "
	tests := []struct {
		name  string
		model edgewise.Model
		body  string
		shape edgewise.Shape
		text  string // of the error
	}{
		{
			name: "one element", model: edgewise.Model{Input: []edgewise.ModelInput{file}}, body: "AB",
			shape: edgewise.Shape{1},
		},
		{name: "empty", model: edgewise.Model{Input: []edgewise.ModelInput{file}}, shape: edgewise.Shape{1}},
		{
			name:  "any number of elements",
			model: edgewise.Model{Input: with(func(in *edgewise.ModelInput) { in.Dims = edgewise.Shape{-1} })}, body: "AB",
			shape: edgewise.Shape{1},
		},
		{
			name: "batching", model: edgewise.Model{MaxBatchSize: 4, Input: []edgewise.ModelInput{file}}, body: "AB",
			shape: edgewise.Shape{1, 1},
		},
		{
			name: "beside an optional input", model: edgewise.Model{Input: []edgewise.ModelInput{hint, file}}, body: "AB",
			shape: edgewise.Shape{1},
		},
		{
			name: "no required input", model: edgewise.Model{Input: []edgewise.ModelInput{hint}},
			text: refused + "it has no required input",
		},
		{name: "two inputs", model: edgewise.Model{Input: append(with(func(in *edgewise.ModelInput) { in.Name = "w" }),
			file)}, text: refused + "it has several inputs, 'w' and 'x' among them"},
		{
			name: "numbers", model: edgewise.Model{Input: with(func(in *edgewise.ModelInput) { in.DataType = edgewise.Uint8 })},
			text: refused + "its input 'x' has type UINT8, not BYTES",
		},
		{
			name:  "two elements",
			model: edgewise.Model{Input: with(func(in *edgewise.ModelInput) { in.Dims = edgewise.Shape{2} })},
			text:  refused + "its input 'x' has shape [2], not one element",
		},
		{
			name: "too large", model: edgewise.Model{Input: []edgewise.ModelInput{file}}, body: strings.Repeat("A", 65),
			text: "input 'x' has 65 bytes, at most 64 are allowed",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.model.Name = "m"
			r, err := NewDecoder(tightLimits).Media(model, &test.model, []byte(test.body))
			if test.text != "" {
				if err == nil || err.Error() != test.text {
					t.Errorf("got %v, want %s", err, test.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := edgewise.Tensor{
				Name: "x", Type: edgewise.Bytes, Shape: test.shape,
				Data: edgewise.AppendElement(nil, test.body),
			}
			if diff := cmp.Diff([]edgewise.Tensor{want}, r.Inputs); diff != "" || r.BinaryOutput || r.Model != model {
				t.Errorf("binary output %v, model %v, inputs:\n%s", r.BinaryOutput, r.Model, diff)
			}
			r.Release()
		})
	}
}

func TestRawRequests(t *testing.T) {
	input := func(typ edgewise.DataType, dims ...int64) []edgewise.ModelInput {
		return []edgewise.ModelInput{{Name: "x", DataType: typ, Dims: dims}}
	}
	tests := []struct {
		name  string
		model edgewise.Model
		body  string
		want  edgewise.Tensor
		text  string // of the error
	}{
		{
			name: "fixed", model: edgewise.Model{Input: input(edgewise.Int8, 2)}, body: "AB",
			want: edgewise.Tensor{Shape: edgewise.Shape{2}, Data: []byte("AB")},
		},
		{
			name: "one open dimension", model: edgewise.Model{Input: input(edgewise.Int16, -1, 2)}, body: "ABCDEFGH",
			want: edgewise.Tensor{Shape: edgewise.Shape{2, 2}, Data: []byte("ABCDEFGH")},
		},
		{
			name: "batching", model: edgewise.Model{MaxBatchSize: 4, Input: input(edgewise.Int8, -1)}, body: "ABC",
			want: edgewise.Tensor{Shape: edgewise.Shape{1, 3}, Data: []byte("ABC")},
		},
		{
			name: "the wrong size is for the scheduler to find", model: edgewise.Model{Input: input(edgewise.Int8, 2)},
			body: "A", want: edgewise.Tensor{Shape: edgewise.Shape{2}, Data: []byte("A")},
		},
		{
			name: "bytes", model: edgewise.Model{Input: input(edgewise.Bytes, 1)}, body: "AB",
			want: edgewise.Tensor{Shape: edgewise.Shape{1}, Data: []byte("\x02\x00\x00\x00AB")},
		},
		{
			name: "no bytes", model: edgewise.Model{Input: input(edgewise.Int8, -1)}, body: "",
			want: edgewise.Tensor{Shape: edgewise.Shape{0}, Data: []byte{}},
		},
		{
			name: "two inputs", model: edgewise.Model{Input: make([]edgewise.ModelInput, 2)},
			text: "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'm' model configuration",
		},
		{
			name: "one input and optional ones",
			model: edgewise.Model{
				Input: append([]edgewise.ModelInput{{Name: "o", DataType: edgewise.FP32, Dims: edgewise.Shape{1}, Optional: true}},
					input(edgewise.Int8, 2)...),
			},
			body: "AB", want: edgewise.Tensor{Shape: edgewise.Shape{2}, Data: []byte("AB")},
		},
		{
			name: "two open dimensions", model: edgewise.Model{Input: input(edgewise.Int8, -1, -1)},
			text: "The shape of the raw input 'x' can not be deduced because there are more than one variable-sized dimension",
		},
		{
			name: "bytes of another shape", model: edgewise.Model{Input: input(edgewise.Bytes, 2)},
			text: "For BYTE datatype raw input 'x', the model must have input shape [1]",
		},
		{
			name: "bytes of any shape", model: edgewise.Model{Input: input(edgewise.Bytes, -1)},
			text: "For BYTE datatype raw input 'x', the model must have input shape [1]",
		},
		{
			name: "a part of a row", model: edgewise.Model{Input: input(edgewise.Int16, -1)}, body: "ABC",
			text: "The shape of the raw input 'x' can not be deduced: 3 bytes are no multiple of 2",
		},
		{
			name: "rows of nothing", model: edgewise.Model{Input: input(edgewise.Int16, -1, 0)}, body: "ABC",
			text: "The shape of the raw input 'x' can not be deduced: 3 bytes are no multiple of 0",
		},
		{
			name: "too large", model: edgewise.Model{Input: input(edgewise.Bytes, 1)}, body: strings.Repeat("A", 65),
			text: "raw input 'x' has 65 bytes, at most 64 are allowed",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := NewDecoder(tightLimits).Raw(model, &test.model, []byte(test.body))
			if test.text != "" {
				if err == nil || err.Error() != test.text {
					t.Errorf("got %v, want %s", err, test.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			test.want.Name, test.want.Type = "x", test.model.Input[len(test.model.Input)-1].DataType
			if diff := cmp.Diff([]edgewise.Tensor{test.want}, r.Inputs); diff != "" || !r.BinaryOutput || r.Model != model {
				t.Errorf("binary output %v, model %v, inputs:\n%s", r.BinaryOutput, r.Model, diff)
			}
		})
	}
}
