package wasm

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// talking imports everything that answers with text. It fails with what the import that its input chooses says.
const talking = `
(import "edgewise_v1" "parameter" (func $parameter (param i32 i32 i32 i32) (result i32)))
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(import "edgewise_v1" "log" (func $log (param i32 i32 i32)))
(import "edgewise_v1" "infer" (func $infer (param i32 i32 i32) (result i32)))
(import "edgewise_v1" "last_error" (func $error (param i32 i32) (result i32)))
(import "edgewise_v1" "image_decode" (func $decode (param i32 i32 i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
(import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
` + prelude + `
(data (i32.const 0) "what" "good" "absent" "a line\0a")
(func (export "edgewise_process") (param $in i32) (result i32) (local $d i32)
  (local.set $d (i32.load (i32.add (local.get $in) (i32.const 28))))
  (if (i32.eq (i32.load8_u (local.get $d)) (i32.const 1)) (then
    (call $fail (i32.const 512) (call $parameter (i32.const 0) (i32.const 4) (i32.const 512) (i32.const 100))) (return (i32.const 0))))
  (if (i32.eq (i32.load8_u (local.get $d)) (i32.const 2)) (then
    (return (call $infer (i32.const 4) (i32.const 4) (local.get $in)))))
  (if (i32.eq (i32.load8_u (local.get $d)) (i32.const 3)) (then
    (drop (call $infer (i32.const 8) (i32.const 6) (local.get $in)))
    (call $fail (i32.const 512) (call $error (i32.const 512) (i32.const 100))) (return (i32.const 0))))
  (if (i32.eq (i32.load8_u (local.get $d)) (i32.const 4)) (then
    (i32.store (i32.const 600) (i32.const 14)) (i32.store (i32.const 604) (i32.const 7))
    (drop (call $write (i32.const 1) (i32.const 600) (i32.const 1) (i32.const 700)))
    (call $log (i32.const 3) (i32.const 0) (i32.const 4))))
  (if (i32.eq (i32.load8_u (local.get $d)) (i32.const 5)) (then
    (drop (call $clock (i32.const 1) (i64.const 0) (i32.const 800)))
    (drop (call $random (i32.const 808) (i32.const 8)))
    (if (i32.or (i64.ne (i64.rem_u (i64.load (i32.const 800)) (i64.const 1000000)) (i64.const 0))
                (i32.or (i64.eqz (i64.load (i32.const 808)))
                        (i32.ne (i32.const 8) (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4)
                          (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0) (i32.const 0)))))
      (then unreachable))))
  local.get $in)`

// answering answers for "good" with twice the first byte, and lists what it was asked.
type answering struct{ callers [][]string }

func (a *answering) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	a.callers = append(a.callers, req.Callers)
	if req.Model.Name != "good" {
		return nil, edgewise.Errorf("test", edgewise.NotFound, "no %s", req.Model.Name)
	}
	out := req.Inputs[0]
	out.Data = bytes.Clone(out.Data)
	out.Data[0] *= 2
	return &edgewise.Response{Outputs: []edgewise.Tensor{out}}, nil
}

func ask(t *testing.T, s *step, options edgewise.RunOptions, what byte) (*edgewise.Result, error) {
	t.Helper()
	in := []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: []byte{what, 0, 0, 0}}}
	return s.Run(t.Context(), in, []string{"x"}, options)
}

func TestImportsAnswer(t *testing.T) {
	var logged bytes.Buffer
	others := &answering{}
	s := load(t, Config{Infer: others, Logger: slog.New(slog.NewTextHandler(&logged, nil))},
		model("what", "of the model", ParamModels, "good, absent"), talking)

	for _, test := range []struct {
		parameters map[string]any
		want       string
	}{
		{nil, "of the model"},
		{map[string]any{"what": "of the request"}, "of the request"},
		{map[string]any{"what": int64(-7)}, "-7"},
		{map[string]any{"what": true}, "true"},
		{map[string]any{"what": 0.1}, "0.1"},
	} {
		_, err := ask(t, s, edgewise.RunOptions{Parameters: test.parameters}, 1)
		if err == nil || err.Error() != `model "step" version 1: step: `+test.want {
			t.Errorf("parameter of %v: got %v", test.parameters, err)
		}
	}

	r, err := ask(t, s, edgewise.RunOptions{Callers: []string{"first"}}, 2)
	if err != nil || r.Outputs[0].Data[0] != 4 {
		t.Fatalf("infer: %v, %v", r, err)
	}
	if r.Guest.Host <= 0 || len(others.callers) != 1 || !slices.Equal(others.callers[0], []string{"first", "step"}) {
		t.Errorf("usage %+v, calls %+v", r.Guest, others.callers)
	}
	r.Free()
	if _, err := ask(t, s, edgewise.RunOptions{}, 3); err == nil || err.Error() != `model "step" version 1: step: no absent` {
		t.Errorf("a model that is not there: %v", err)
	}
	for _, refused := range []struct {
		options edgewise.RunOptions
		want    string
	}{
		{edgewise.RunOptions{Callers: make([]string, MaxInferDepth)}, "infer: more than 4 steps call each other"},
		{
			edgewise.RunOptions{Callers: []string{"absent"}},
			`infer: model "absent" waits for this answer already: steps cannot call each other in a circle`,
		},
		{
			edgewise.RunOptions{Trial: true},
			"infer: this is a trial with made-up inputs: it calls no other model",
		},
	} {
		if _, err := ask(t, s, refused.options, 3); err == nil || err.Error() != `model "step" version 1: step: `+refused.want {
			t.Errorf("got %v, want %s", err, refused.want)
		}
	}
	if len(others.callers) != 2 {
		t.Errorf("a refused call was made: %+v", others.callers)
	}
	for _, what := range []byte{4, 5} {
		r, err := ask(t, s, edgewise.RunOptions{}, what)
		if err != nil {
			t.Fatal(err)
		}
		r.Free()
	}
	for _, want := range []string{
		`level=INFO msg=step model=step version=1 text="a line"`,
		`level=ERROR msg=step model=step version=1 text=what`,
	} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &logged)
		}
	}
	if m := s.GuestStatistics(); m.Failed != 8 || m.Trapped != 0 || m.Instances != 3 || m.Host == 0 || m.Time == 0 {
		t.Errorf("%+v", m)
	}
}

// TestALogIsLimited logs more lines than are allowed.
func TestALogIsLimited(t *testing.T) {
	var logged bytes.Buffer
	s := load(t, Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, model(), `(import "edgewise_v1" "log"
	  (func $log (param i32 i32 i32)))`+prelude+`
(func (export "edgewise_process") (param $in i32) (result i32) (local $n i32) (local.set $n (i32.const 1000))
loop $l (call $log (i32.const 1) (i32.const 0) (i32.const 100000))
  (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))) end local.get $in)`)
	r, err := s.Run(t.Context(), floats(1), []string{"x"}, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Free()
	if n := strings.Count(logged.String(), "msg=step "); n < MaxLogLines || n > 5*MaxLogLines {
		t.Errorf("%d of 1000 lines are logged", n)
	}
	for line := range strings.Lines(logged.String()) {
		if len(line) > 4*MaxLogBytes+200 { // a zero is written as four characters
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}

// TestAPictureIsDecodedInAStep gives a PNG file to a step that decodes it and returns its first pixel.
func TestAPictureIsDecodedInAStep(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 2, 2))
	img.Pix[0] = 77
	var file bytes.Buffer
	if err := png.Encode(&file, img); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, b := range file.Bytes() {
		fmt.Fprintf(&text, `\%02x`, b)
	}
	s := load(t, Config{}, model(), `(import "edgewise_v1" "image_decode" (func $decode (param i32 i32 i32 i32 i32 i32) (result i32)))
`+prelude+`(data (i32.const 100) "`+text.String()+`") (func (export "edgewise_process") (param $in i32) (result i32)
(if (i32.ne (i32.const 4) (call $decode (i32.const 100) (i32.const `+fmt.Sprint(file.Len())+`) (i32.const 0)
  (i32.const 1) (i32.load offset=28 (local.get $in)) (i32.const 4))) (then unreachable)) local.get $in)`)
	r, err := s.Run(t.Context(), floats(1), []string{"x"}, edgewise.RunOptions{})
	if err != nil || r.Outputs[0].Data[0] != 77 {
		t.Fatalf("%v, %v", r, err)
	}
	r.Free()
}

func TestADescriptionFillsInTheSignature(t *testing.T) {
	text := `{"name":"n","version":"1","description":"d","max_batch_size":8,` +
		`"inputs":[{"name":"a","datatype":"BYTES","shape":[-1,2],"optional":true}],` +
		`"outputs":[{"name":"b","datatype":"FP16","shape":[-1],"description":"out"}],` +
		`"parameters":[{"name":"p","default":"3","description":"of three"}]}`
	module := assemble(t, prelude+fmt.Sprintf(`(data (i32.const 0) "\%02x\%02x\00\00" "%s")
	  (func (export "edgewise_describe") (result i32) i32.const 0)
(func (export "edgewise_process") (param i32) (result i32) i32.const 0)`,
		len(text)&255, len(text)>>8, strings.ReplaceAll(text, `"`, `\22`)))
	ins, err := New(Config{}).Inspect(t.Context(), folder(t, module), &edgewise.Model{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	in, out := ins.Inputs[0], ins.Outputs[0]
	if *ins.MaxBatchSize != 8 || in.Name != "a" || in.Type != edgewise.Bytes || !in.Optional ||
		!in.Shape.Equal(edgewise.Shape{-1, 2}) || out.Type != edgewise.FP16 {
		t.Errorf("%+v", ins)
	}
	if ins.Metadata["parameter.p"] != `default "3": of three` || ins.Metadata["tensor.b"] != "out" ||
		ins.Metadata["version"] != "1" || ins.Producer != "n" {
		t.Errorf("%v", ins.Metadata)
	}
}

// FuzzList holds that no list makes the reader panic, and that what it returns lies in the memory and is well-formed.
func FuzzList(f *testing.F) {
	good := make([]byte, 256)
	fill(good[8:], 8, layout(floats(3)), floats(3))
	f.Add(good, uint32(8))
	two := append(floats(2), edgewise.Tensor{Name: "y", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: []byte{1, 0, 0, 0, 'a'}})
	block := make([]byte, 512)
	fill(block, 0, layout(two), two)
	f.Add(block, uint32(0))
	f.Fuzz(func(t *testing.T, memory []byte, pointer uint32) {
		tensors, err := readList(memory, pointer, "step: output")
		if err != nil {
			if err.Kind != edgewise.Guest {
				t.Errorf("%v is of kind %v", err, err.Kind)
			}
			return
		}
		for i := range tensors {
			if bad := tensors[i].Check(); bad != nil || len(tensors[i].Name) == 0 {
				t.Errorf("%v: %+v", bad, tensors[i])
			}
		}
	})
}
