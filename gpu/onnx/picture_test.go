package onnx

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/picture"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// planes are what the identity model of these tests takes: three planes of 4x5.
var planes = edgewise.Shape{3, 5, 4}

// viewer loads a model that returns its input, FP32 or FP16 planes, and puts rings with the fake device in front of it,
// as for a model that takes pictures.
func viewer(t *testing.T, ctx *cuda.Ctx, kind edgewise.DataType, buckets []int) *accelerated {
	t.Helper()
	dir := t.TempDir()
	model := onnxgen.Identity(kind, onnxgen.Dim{Size: -1}, onnxgen.Dim{Size: 3}, onnxgen.Dim{Size: 5},
		onnxgen.Dim{Size: 4})
	if err := model.Save(dir); err != nil {
		t.Fatal(err)
	}
	m := &edgewise.Model{Name: "m", Platform: Platform, MaxBatchSize: int32(buckets[len(buckets)-1])}
	b := New(Config{Library: real.Library(t), Logger: slog.New(slog.DiscardHandler)})
	inspection, err := b.Inspect(t.Context(), dir, m)
	if err != nil {
		t.Fatal(err)
	}
	input, ok := PictureInput(m, inspection)
	if input != "x" || !ok {
		t.Fatalf("it takes no pictures: %q, %v", input, ok)
	}
	lib, err := b.Library()
	if err != nil {
		t.Fatal(err)
	}
	s, err := lib.NewSession(filepath.Join(dir, "model.onnx"), []string{"x"}, []string{"y"}, ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, out, _ := plans(m, inspection, buckets[len(buckets)-1], 2)
	c := ringConfig{
		Context: ctx, shapes: shapes{Inputs: in, Outputs: out, Buckets: buckets, Batched: true}, Slots: 2,
		Bind: func(compute *cuda.Stream, inputs, outputs []ort.Bound, _ int) (bound, error) {
			b, err := s.NewBinding(ort.BindingConfig{Inputs: inputs, Outputs: outputs, Memory: ort.HostMemory})
			return late{b, compute}, err
		},
	}
	l := &gpuLoad{backend: b, version: &edgewise.Version{Model: m}, ctx: ctx, file: inspection}
	if _, err := l.addKernel(&c); err != nil {
		t.Fatal(err)
	}
	r, err := newRing(c)
	if err != nil {
		t.Fatal(err)
	}
	a := newAccelerated(edgewise.ModelID{Name: "m", Version: 1}, edgewise.Device{Kind: edgewise.GPU}, ctx,
		[]edgewise.Instance{s}, []*ring{r})
	a.AllowPadding()
	a.picture, a.kernel = input, l.kernel
	if err := a.warm(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	return a
}

// views makes a run of pictures and what comes of them on the CPU.
func views(list []edgewise.Picture, kind edgewise.DataType) (in []edgewise.Tensor, want []byte) {
	var pixels, normals []byte
	for i := range list {
		p := &list[i]
		pixels = append(pixels, picture.Part(p)...)
		for _, v := range append(p.Mean[:], p.Scale[:]...) {
			normals = binary.LittleEndian.AppendUint32(normals, math.Float32bits(v))
		}
		row := make([]byte, 3*5*4*kind.Size())
		picture.Planes(p, row, kind, 4, 5, func() {})
		want = append(want, row...)
	}
	n := int64(len(list))
	return []edgewise.Tensor{
		{
			Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{n, int64(list[0].Height), int64(list[0].Width), 3},
			Data: pixels,
		},
		{Name: "x.normal", Type: edgewise.FP32, Shape: edgewise.Shape{n, NormalSize}, Data: normals},
	}, want
}

// TestPicturesBecomeTensorsOnTheDevice draws batches of pictures and compares what a model is given on the fake device
// with what it would be given on the CPU: the bytes are the same, for each type, in memory of its own and in that of
// the CPU.
func TestPicturesBecomeTensorsOnTheDevice(t *testing.T) {
	for _, kind := range []edgewise.DataType{edgewise.FP32, edgewise.FP16} {
		for _, integrated := range []int64{0, 1} {
			t.Run(fmt.Sprintf("%v, integrated %d", kind, integrated), func(t *testing.T) {
				ctx, finish := retain(t, map[fakegpu.Word]int64{fakegpu.IsIntegrated: integrated})
				a := viewer(t, ctx, kind, []int{2, 4})
				rapid.Check(t, func(r *rapid.T) {
					w, h := rapid.IntRange(1, 12).Draw(r, "width"), rapid.IntRange(1, 12).Draw(r, "height")
					var list []edgewise.Picture
					for range rapid.IntRange(1, 4).Draw(r, "pictures") {
						mean := float32(rapid.IntRange(0, 1).Draw(r, "mean")) // neighbours with the same arithmetic share a launch
						list = append(list, edgewise.Picture{
							Pixels: rapid.SliceOfN(rapid.Byte(), 3*w*h, 3*w*h).Draw(r, "pixels"), Stride: 3 * w, Width: w, Height: h,
							Mean: [3]float32{mean, 2, 3}, Scale: [3]float32{1, 0.5, 1 / 57.0},
						})
					}
					in, want := views(list, kind)
					launches := control.Get(fakegpu.Launches)
					result, err := a.Run(context.Background(), in, []string{"y"}, edgewise.RunOptions{})
					if err != nil {
						r.Fatal(err)
					}
					if string(result.Outputs[0].Data) != string(want) || result.Outputs[0].Shape[0] != int64(len(list)) {
						r.Fatal("the device made another tensor than the CPU")
					}
					if control.Get(fakegpu.Launches) == launches {
						r.Fatal("no kernel was launched")
					}
					result.Free()
				})
				plain, err := a.Run(context.Background(),
					[]edgewise.Tensor{{
						Name: "x", Type: kind, Shape: append(edgewise.Shape{1}, planes...),
						Data: make([]byte, 60*kind.Size()),
					}}, []string{"y"}, edgewise.RunOptions{})
				if err != nil {
					t.Fatal(err)
				}
				plain.Free()
				finish(a)
			})
		}
	}
}

func TestRunsOfPicturesThatTheDeviceDoesNotTake(t *testing.T) {
	ctx, finish := retain(t, nil)
	a := viewer(t, ctx, edgewise.FP32, []int{2})
	one := edgewise.Picture{Pixels: make([]byte, 12), Stride: 6, Width: 2, Height: 2}
	good, _ := views([]edgewise.Picture{one}, edgewise.FP32)
	many, _ := views([]edgewise.Picture{one, one, one}, edgewise.FP32)
	for name, in := range map[string][]edgewise.Tensor{
		"more than there are rows": many, "no pixels": good[1:],
		"fewer pixels": {
			{Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{1, 2, 2, 3}, Data: good[0].Data[:11]},
			good[1],
		},
		"other channels": {{Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{1, 2, 3, 2}, Data: good[0].Data}, good[1]},
	} {
		if _, err := a.Run(context.Background(), in, []string{"y"},
			edgewise.RunOptions{}); edgewise.KindOf(err) != edgewise.Unsupported {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i, fault := range []struct {
		symbol string
		code   cuda.Result
	}{{"cuMemAlloc_v2", cuda.OutOfMemory}, {"cuMemHostAlloc", cuda.OutOfMemory}, {
		"cuLaunchKernel",
		cuda.LaunchOutOfResources,
	}} {
		height := 10 * (i + 1) // each more than there is room for
		large := edgewise.Picture{Pixels: make([]byte, 3*100*height), Stride: 300, Width: 100, Height: height}
		in, _ := views([]edgewise.Picture{large}, edgewise.FP32)
		control.Fail(fault.symbol, 1, int32(fault.code), false)
		if _, err := a.Run(context.Background(), in, []string{"y"}, edgewise.RunOptions{}); err == nil ||
			!strings.Contains(err.Error(), fault.code.Error()) {
			t.Errorf("%s: %v", fault.symbol, err)
		}
	}
	r, err := a.Run(context.Background(), good, []string{"y"}, edgewise.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Free()
	finish(a)
}

func TestWhichModelsTakePictures(t *testing.T) {
	info := func(name string, kind edgewise.DataType, shape ...int64) edgewise.TensorInfo {
		return edgewise.TensorInfo{Name: name, Type: kind, Shape: shape}
	}
	image := info("image", edgewise.FP16, -1, 3, 8, 8)
	for _, test := range []struct {
		name   string
		inputs []edgewise.TensorInfo
		change func(*edgewise.Model)
		want   string
	}{
		{"an image", []edgewise.TensorInfo{image}, nil, "image"},
		{"an image and more", []edgewise.TensorInfo{info("size", edgewise.Int64, -1, 2), image}, nil, "image"},
		{"two images", []edgewise.TensorInfo{image, info("other", edgewise.FP32, -1, 3, 8, 8)}, nil, ""},
		{"bytes", []edgewise.TensorInfo{info("image", edgewise.Uint8, -1, 3, 8, 8)}, nil, ""},
		{"interleaved", []edgewise.TensorInfo{info("image", edgewise.FP32, -1, 8, 8, 3)}, nil, ""},
		{"any size", []edgewise.TensorInfo{info("image", edgewise.FP32, -1, 3, -1, 8)}, nil, ""},
		{"disabled", []edgewise.TensorInfo{image}, func(m *edgewise.Model) {
			m.Parameters["gpu_pictures"] = edgewise.ModelParam{StringValue: "off"}
		}, ""},
		{"no buckets", []edgewise.TensorInfo{image}, func(m *edgewise.Model) {
			m.Parameters["gpu_batch_buckets"] = edgewise.ModelParam{StringValue: "off"}
		}, ""},
		{"no batches", []edgewise.TensorInfo{image}, func(m *edgewise.Model) { m.MaxBatchSize = 0 }, ""},
		{"reshaped", []edgewise.TensorInfo{image}, func(m *edgewise.Model) {
			m.Input = []edgewise.ModelInput{{Name: "image", Reshape: &edgewise.Reshape{}}}
		}, ""},
	} {
		m := &edgewise.Model{Name: "m", MaxBatchSize: 4, Parameters: map[string]edgewise.ModelParam{}}
		if test.change != nil {
			test.change(m)
		}
		got, ok := PictureInput(m, &edgewise.Inspection{
			Inputs:  test.inputs,
			Outputs: []edgewise.TensorInfo{info("y", edgewise.FP32, -1, 2)},
		})
		if got != test.want || ok != (test.want != "") {
			t.Errorf("%s: %q, %v", test.name, got, ok)
		}
	}
	if pictureInput([]plan{{"x", edgewise.FP32, edgewise.Shape{3, picture.MaxSide + 1, 1}, 1}}) >= 0 {
		t.Error("a side that is too large is taken")
	}
}
