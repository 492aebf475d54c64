package onnx

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

func backend(t *testing.T) *Backend {
	return New(Config{Library: real.Library(t), Logger: slog.New(slog.DiscardHandler)})
}

// load writes a model into a folder and loads it.
func load(t *testing.T, m *onnxgen.Model, parameters map[string]edgewise.ModelParam) edgewise.Instance {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	v := &edgewise.Version{
		ID:    edgewise.ModelID{Name: "m", Version: 1},
		Model: &edgewise.Model{Name: "m", Platform: Platform, Parameters: parameters},
	}
	instance, err := backend(t).Load(t.Context(), v, dir, edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := instance.Close(); err != nil {
			t.Error(err)
		}
	})
	return instance
}

func infer(t *testing.T, i edgewise.Instance, want []string, in ...edgewise.Tensor) []edgewise.Tensor {
	t.Helper()
	r, err := i.Run(t.Context(), in, want, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var copies []edgewise.Tensor
	for _, out := range r.Outputs {
		out.Data = slices.Clone(out.Data)
		copies = append(copies, out)
	}
	r.Free()
	return copies
}

func floats(values ...float32) []byte {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

// TestEveryDataTypePassesUnchanged sends each type through an identity model, in every rank that is odd somewhere.
func TestEveryDataTypePassesUnchanged(t *testing.T) {
	shapes := []edgewise.Shape{{}, {1}, {0}, {2, 3}, {2, 0, 3}}
	for _, kind := range edgewise.DataTypes() {
		t.Run(kind.String(), func(t *testing.T) {
			for _, shape := range shapes {
				var dims []onnxgen.Dim
				for range shape {
					dims = append(dims, onnxgen.Dim{Size: -1})
				}
				i := load(t, onnxgen.Identity(kind, dims...), nil)
				in := edgewise.Tensor{Name: "x", Type: kind, Shape: shape, Data: sample(kind, shape)}
				out := infer(t, i, []string{"y"}, in)[0]
				if out.Type != kind || !out.Shape.Equal(shape) || string(out.Data) != string(in.Data) {
					t.Errorf("%v%v %v came back as %v%v %v", kind, shape, in.Data, out.Type, out.Shape, out.Data)
				}
			}
		})
	}
}

// sample makes bytes of a type; strings hold NUL bytes, emptiness and more than ASCII.
func sample(kind edgewise.DataType, shape edgewise.Shape) []byte {
	n, _ := shape.Elements()
	if kind == edgewise.Bytes {
		var data []byte
		for i := range n {
			data = edgewise.AppendElement(data, []string{"a\x00b", "", "grüße\xff"}[i%3])
		}
		return data
	}
	data := make([]byte, n*kind.Size())
	for i := range data {
		data[i] = byte(i*7) & 1
		if kind != edgewise.Bool {
			data[i] = byte(i*7 + 1)
		}
	}
	return data
}

func TestOnlyWantedOutputsInTheOrderWanted(t *testing.T) {
	i := load(t, onnxgen.AddSub(), nil)
	a := edgewise.Tensor{
		Name: "a", Type: edgewise.FP32, Shape: edgewise.Shape{1, 16},
		Data: floats(slices.Repeat([]float32{5}, 16)...),
	}
	b := edgewise.Tensor{
		Name: "b", Type: edgewise.FP32, Shape: edgewise.Shape{1, 16},
		Data: floats(slices.Repeat([]float32{2}, 16)...),
	}
	both := infer(t, i, []string{"diff", "sum"}, b, a)
	if string(both[0].Data) != string(floats(slices.Repeat([]float32{3}, 16)...)) ||
		string(both[1].Data) != string(floats(slices.Repeat([]float32{7}, 16)...)) {
		t.Errorf("diff and sum are %v", both)
	}
	if one := infer(t, i, []string{"sum"}, a, b); len(one) != 1 || one[0].Name != "sum" {
		t.Errorf("asked for sum, got %v", one)
	}
}

// TestUnalignedInput sends bytes that begin at an odd address.
func TestUnalignedInput(t *testing.T) {
	i := load(t, onnxgen.Identity(edgewise.FP64, onnxgen.Dim{Size: -1}), nil)
	room := make([]byte, 33)
	data := room[1:]
	binary.LittleEndian.PutUint64(data, math.Float64bits(math.Pi))
	out := infer(t, i, []string{"y"}, edgewise.Tensor{
		Name: "x", Type: edgewise.FP64, Shape: edgewise.Shape{4},
		Data: data,
	})
	if string(out[0].Data) != string(data) {
		t.Errorf("got %v", out[0].Data)
	}
}

func TestOptionalInputAndExternalData(t *testing.T) {
	external := load(t, onnxgen.External(), nil)
	out := infer(t, external, []string{"y"},
		edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 4}, Data: floats(1, 2, 3, 4)})
	if string(out[0].Data) != string(floats(20, 30)) {
		t.Errorf("a model with external data answers %v", out[0])
	}
	optional := load(t, onnxgen.OptionalInput(), nil)
	x := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 4}, Data: floats(10, 10, 10, 10)}
	if out := infer(t, optional, []string{"y"}, x); string(out[0].Data) != string(floats(11, 12, 13, 14)) {
		t.Errorf("without the optional input it answers %v", out[0])
	}
	bias := edgewise.Tensor{Name: "bias", Type: edgewise.FP32, Shape: edgewise.Shape{4}, Data: floats(0, 0, 0, 1)}
	if out := infer(t, optional, []string{"y"}, bias, x); string(out[0].Data) != string(floats(10, 10, 10, 11)) {
		t.Errorf("with the optional input it answers %v", out[0])
	}
}

// TestManyAtOnce shares one session between goroutines, whose answers must be their own, also while others are held.
func TestManyAtOnce(t *testing.T) {
	i := load(t, onnxgen.AddSub(), nil)
	var callers sync.WaitGroup
	for n := range 8 {
		callers.Go(func() {
			for round := range 50 {
				v := float32(100*n + round)
				in := edgewise.Tensor{
					Type: edgewise.FP32, Shape: edgewise.Shape{1, 16},
					Data: floats(slices.Repeat([]float32{v}, 16)...),
				}
				a, b := in, in
				a.Name, b.Name = "a", "b"
				r, err := i.Run(t.Context(), []edgewise.Tensor{a, b}, []string{"sum"}, edgewise.RunOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if string(r.Outputs[0].Data) != string(floats(slices.Repeat([]float32{2 * v}, 16)...)) {
					t.Errorf("caller %d round %d got %v", n, round, r.Outputs[0].Data)
				}
				r.Free()
			}
		})
	}
	callers.Wait()
}

// TestRunEndsWithItsContext stops a run of some seconds after a moment.
func TestRunEndsWithItsContext(t *testing.T) {
	i := load(t, onnxgen.Slow(200), nil)
	in := edgewise.Tensor{Name: "x", Type: edgewise.FP32}
	inspection, err := backend(t).Inspect(t.Context(), saved(t, onnxgen.Slow(200)), &edgewise.Model{})
	if err != nil {
		t.Fatal(err)
	}
	in.Name, in.Shape = inspection.Inputs[0].Name, slices.Clone(inspection.Inputs[0].Shape)
	for d := range in.Shape {
		in.Shape[d] = max(in.Shape[d], 1)
	}
	n, _ := in.Shape.Elements()
	in.Data = make([]byte, 4*n)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = i.Run(ctx, []edgewise.Tensor{in}, []string{inspection.Outputs[0].Name}, edgewise.RunOptions{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a run beyond its deadline: %v", err)
	}
	small := load(t, onnxgen.AddSub(), nil)
	canceled, stop := context.WithCancel(t.Context())
	stop()
	if _, err := small.Run(canceled, nil, []string{"sum"}, edgewise.RunOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was canceled before: %v", err)
	}
}

func saved(t *testing.T, m *onnxgen.Model) string {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRunRefuses(t *testing.T) {
	i := load(t, onnxgen.AddSub(), nil)
	good := edgewise.Tensor{Name: "a", Type: edgewise.FP32, Shape: edgewise.Shape{1, 16}, Data: make([]byte, 64)}
	odd := edgewise.Tensor{Name: "b", Type: edgewise.FP32, Shape: edgewise.Shape{1, 15}, Data: make([]byte, 60)}
	unknown := good
	unknown.Name = "z"
	tests := []struct {
		name string
		in   []edgewise.Tensor
		want []string
		kind edgewise.Kind
		text string
	}{
		{
			"wrong size",
			[]edgewise.Tensor{good, odd},
			[]string{"sum"},
			edgewise.Invalid,
			"ONNX Runtime refuses the input: Got invalid dimensions",
		},
		{
			"unknown input",
			[]edgewise.Tensor{unknown},
			[]string{"sum"},
			edgewise.Invalid,
			`input "z": the model has none of that name`,
		},
		{"unknown output", []edgewise.Tensor{good}, []string{"prod"}, edgewise.Invalid, `the model has no output "prod"`},
		{
			"too many",
			[]edgewise.Tensor{good, good, good},
			[]string{"sum"},
			edgewise.Invalid,
			"3 inputs and 1 outputs, the model has 2 and 2",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := i.Run(t.Context(), test.in, test.want, edgewise.RunOptions{})
			if err == nil || edgewise.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %s", err, test.text)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	tests := []struct {
		name   string
		mutate func(t *testing.T, v *edgewise.Version, dir string) (edgewise.Device, *Backend)
		kind   edgewise.Kind
		text   string
	}{
		{"no runtime", func(t *testing.T, _ *edgewise.Version, _ string) (edgewise.Device, *Backend) {
			return edgewise.Device{}, New(Config{
				Library: filepath.Join(t.TempDir(), "libnone.so"),
				Logger:  slog.New(slog.DiscardHandler),
			})
		}, edgewise.Unavailable, "ONNX Runtime was not found, so ONNX models cannot be served: tried"},
		{"something else as runtime", func(t *testing.T, _ *edgewise.Version, _ string) (edgewise.Device, *Backend) {
			path := filepath.Join(t.TempDir(), "libnone.so")
			if err := os.WriteFile(path, []byte("not a library"), 0o644); err != nil {
				t.Fatal(err)
			}
			return edgewise.Device{}, New(Config{Library: path, Logger: slog.New(slog.DiscardHandler)})
		}, edgewise.Unavailable, "cannot be loaded as ONNX Runtime"},
		{"gpu", func(t *testing.T, _ *edgewise.Version, _ string) (edgewise.Device, *Backend) {
			return edgewise.Device{Kind: edgewise.GPU, Index: 1}, backend(t)
		}, edgewise.Unavailable, "cannot run on gpu:1: "},
		{"no file", func(t *testing.T, _ *edgewise.Version, dir string) (edgewise.Device, *Backend) {
			if err := os.Remove(filepath.Join(dir, "model.onnx")); err != nil {
				t.Fatal(err)
			}
			return edgewise.Device{}, backend(t)
		}, edgewise.Invalid, `file "model.onnx" is not among the model's files`},
		{"not onnx", func(t *testing.T, _ *edgewise.Version, dir string) (edgewise.Device, *Backend) {
			if err := os.WriteFile(filepath.Join(dir, "model.onnx"), []byte("hello, world"), 0o644); err != nil {
				t.Fatal(err)
			}
			return edgewise.Device{}, backend(t)
		}, edgewise.Invalid, "model.onnx"},
		{"bad number", func(t *testing.T, v *edgewise.Version, _ string) (edgewise.Device, *Backend) {
			v.Model.Parameters = map[string]edgewise.ModelParam{"intra_op_thread_count": {StringValue: "many"}}
			return edgewise.Device{}, backend(t)
		}, edgewise.Invalid, `parameter "intra_op_thread_count": want a whole number, got "many"`},
		{"a session entry that names a folder", func(t *testing.T, v *edgewise.Version, _ string) (edgewise.Device,
			*Backend,
		) {
			v.Model.Parameters = map[string]edgewise.ModelParam{"session.model_external_initializers_file_folder_path": {StringValue: "/"}}
			return edgewise.Device{}, backend(t)
		}, edgewise.Unsupported, "not on the list of those a model may set"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := saved(t, onnxgen.AddSub())
			v := &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: &edgewise.Model{Name: "m"}}
			on, b := test.mutate(t, v, dir)
			_, err := b.Load(t.Context(), v, dir, on)
			if err == nil || edgewise.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v %s", err, test.kind, test.text)
			}
		})
	}
}

func TestOptionsTakeEffect(t *testing.T) {
	parameters := map[string]edgewise.ModelParam{
		"intra_op_thread_count": {StringValue: "0"}, "execution_mode": {StringValue: "1"}, "enable_mem_arena": {StringValue: "0"},
		"enable_mem_pattern": {StringValue: "0"}, "session.set_denormal_as_zero": {StringValue: "1"}, "mine": {StringValue: "x"},
		"memory.enable_memory_arena_shrinkage": {StringValue: "cpu:0"}, "execution_profile": {StringValue: "latency"},
	}
	options, err := sessionOptions(&edgewise.Model{
		Parameters:   parameters,
		Optimization: &edgewise.Optimization{Graph: &edgewise.GraphOptimization{Level: -1}},
	}, 3)
	if err != nil || options.IntraThreads != 3 || !options.Spin || !options.Parallel || !options.NoArena ||
		!options.NoMemPattern || options.Optimization != -1 ||
		options.ConfigEntries["session.set_denormal_as_zero"] != "1" || len(options.ConfigEntries) != 1 ||
		options.RunEntries["memory.enable_memory_arena_shrinkage"] != "cpu:0" {
		t.Errorf("options %+v, %v", options, err)
	}
	delete(parameters, "enable_mem_arena") // shrinking needs an arena
	i := load(t, onnxgen.AddSub(), parameters)
	in := edgewise.Tensor{Name: "a", Type: edgewise.FP32, Shape: edgewise.Shape{1, 16}, Data: make([]byte, 64)}
	other := in
	other.Name = "b"
	infer(t, i, []string{"sum"}, in, other)
}

// TestModelFileMayBeAFolder loads Triton's layout of a model with external data: model.onnx/model.onnx.
func TestModelFileMayBeAFolder(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "model.onnx")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := onnxgen.External().Save(folder); err != nil {
		t.Fatal(err)
	}
	v := &edgewise.Version{
		ID:    edgewise.ModelID{Name: "m", Version: 1},
		Model: &edgewise.Model{Name: "m", DefaultModelFilename: "model.onnx"},
	}
	instance, err := backend(t).Load(t.Context(), v, dir, edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	if err := instance.Close(); err != nil {
		t.Error(err)
	}
}

// TestExternalDataMayBeHardLinked loads a model the way the store lays it out.
func TestExternalDataMayBeHardLinked(t *testing.T) {
	from, to := saved(t, onnxgen.External()), t.TempDir()
	for _, name := range []string{"model.onnx", "weights.bin"} {
		if err := os.Link(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: &edgewise.Model{Name: "m"}}
	instance, err := backend(t).Load(t.Context(), v, to, edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	if err := instance.Close(); err != nil {
		t.Error(err)
	}
}
