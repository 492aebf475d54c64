package e2e

import (
	"encoding/binary"
	"encoding/json"
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// TestInferFromFiles sends every kind of file through a model that answers with what it got.
func TestInferFromFiles(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.upload("echo", "", onnxgen.Identity(edgewise.FP32, onnxgen.Batch(4)...))
	b.upload("sound", "", onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Name: "batch"}, onnxgen.Dim{Name: "samples"}))
	b.upload("picture", "", onnxgen.Identity(edgewise.FP32, onnxgen.Batch(2, 3, 3)...))
	b.upload("pair", "", onnxgen.AddSub())
	four := []float32{1.5, -2, 0, 1e-3}
	for _, test := range []struct {
		name  string
		model string
		file  string
		args  []string
		shape []int64
		want  []float32
	}{
		{"npy", "echo", writeNpy(t, "(1, 4)", four), nil, []int64{1, 4}, four},
		{"npy without batch dimension", "echo", writeNpy(t, "(4,)", four), nil, []int64{1, 4}, four},
		{
			"json", "echo", write(t, "x.json", []byte("[[1.5, -2, 0, 1e-3], [4, 5, 6, 7]]")), nil,
			[]int64{2, 4},
			append(slices.Clone(four), 4, 5, 6, 7),
		},
		{"bin", "echo", write(t, "x.bin", floatBytes(four)), nil, []int64{1, 4}, four},
		{"wav", "sound", writeSound(t, []float64{0, 0.5, -0.5, 1}), nil, []int64{1, 4}, []float32{0, 0.5, -0.5, 1}},
		{
			"picture", "picture", sixPixels(t), nil,
			[]int64{1, 2, 3, 3},
			[]float32{0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 51, 102, 204},
		},
		{
			"picture, scaled", "picture", sixPixels(t),
			[]string{"--scale", "unit"},
			[]int64{1, 2, 3, 3},
			[]float32{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0.2, 0.4, 0.8},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"--output", "json", "infer", test.model, "-i", "x=" + test.file}, test.args...)
			wantTensor(t, b.must(args...), "y", test.shape, test.want)
			unnamed := append([]string{"--output", "json", "infer", test.model + ":1", "-i", test.file}, test.args...)
			wantTensor(t, b.must(unnamed...), "y", test.shape, test.want)
		})
	}
	t.Run("two inputs saved", func(t *testing.T) { savesOutputs(t, b) })
	t.Run("text form", func(t *testing.T) {
		contains(t, "answer", b.must("infer", "echo", "-i", "x="+writeNpy(t, "(1, 4)", four)), `model "echo" version 1`,
			"y FP32[1,4] 1.5 -2 0 0.001")
	})
	t.Run("refusals", func(t *testing.T) {
		b.refuses(4, []string{"FP32", "[-1,4]", "[1,3]"}, "infer", "echo", "-i", "x="+writeNpy(t, "(1, 3)", four[:3]))
		b.refuses(2, []string{`"z=`, "inputs a, b"}, "infer", "pair", "-i", "z=file.npy")
		b.refuses(4, []string{"b"}, "infer", "pair", "-i", "a="+onesFile(t))
		b.refuses(3, []string{"nowhere.npy"}, "infer", "echo", "-i", "x=nowhere.npy")
		b.refuses(3, []string{"nothing"}, "infer", "nothing", "-i", "x=nowhere.npy")
		b.refuses(3, []string{"echo", "7"}, "infer", "echo:7", "-i", "x="+writeNpy(t, "(1, 4)", four))
	})
}

func onesFile(t *testing.T) string {
	return write(t, "ones.json", []byte("[["+strings.TrimSuffix(strings.Repeat("1,", 16), ",")+"]]"))
}

// savesOutputs checks that --save writes arrays that come back as they are.
func savesOutputs(t *testing.T, b *box) {
	out := filepath.Join(t.TempDir(), "new", "folder")
	b.must("infer", "pair", "-i", "a="+onesFile(t), "-i", "b="+onesFile(t), "--save", out)
	for name, want := range map[string]float32{"sum": 2, "diff": 0} {
		file, err := os.ReadFile(filepath.Join(out, name+".npy"))
		if err != nil {
			t.Fatal(err)
		}
		if head, body := string(file[:len(file)-64]), file[len(file)-64:]; !strings.HasPrefix(head, "\x93NUMPY") || len(head)%64 != 0 ||
			!strings.Contains(head, "(1,16,)") || !strings.Contains(head, "<f4") ||
			!slices.Equal(body, floatBytes(slices.Repeat([]float32{want}, 16))) {
			t.Errorf("%s.npy holds %q", name, file)
		}
	}
	b.upload("wide", "", onnxgen.Identity(edgewise.FP32, onnxgen.Batch(16)...))
	wantTensor(t, b.must("--output", "json", "infer", "wide", "-i", filepath.Join(out, "sum.npy")), "y", []int64{1, 16},
		slices.Repeat([]float32{2}, 16))
}

// wantTensor compares the only output of an answer, each element within one part in ten thousand of 1.
func wantTensor(t *testing.T, text, name string, shape []int64, want []float32) {
	t.Helper()
	var a struct {
		Outputs []struct {
			Name  string
			Shape []int64
			Data  []float32
		}
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Outputs) != 1 {
		t.Fatalf("answer %s: %v", text, err)
	}
	got := a.Outputs[0]
	near := func(a, b float32) bool { return math.Abs(float64(a-b)) <= 1e-4 }
	if got.Name != name || !slices.Equal(got.Shape, shape) || !slices.EqualFunc(got.Data, want, near) {
		t.Errorf("answer %+v, want %s %v %v", got, name, shape, want)
	}
}

func floatBytes(values []float32) []byte {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

// writeNpy writes an array by its format's own rules, not with the program's writer.
func writeNpy(t *testing.T, shape string, values []float32) string {
	t.Helper()
	head := "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }"
	head += strings.Repeat(" ", 127-10-len(head)) + "\n"
	return write(t, "x.npy", append([]byte("\x93NUMPY\x01\x00\x76\x00"+head), floatBytes(values)...))
}

// sixPixels is a picture of two rows of three pixels.
func sixPixels(t *testing.T) string {
	picture := image.NewRGBA(image.Rect(0, 0, 3, 2))
	for i, c := range []color.RGBA{
		{0, 0, 0, 255},
		{255, 0, 0, 255},
		{0, 255, 0, 255},
		{0, 0, 255, 255},
		{255, 255, 255, 255},
		{51, 102, 204, 255},
	} {
		picture.SetRGBA(i%3, i/3, c)
	}
	return writePicture(t, picture)
}
