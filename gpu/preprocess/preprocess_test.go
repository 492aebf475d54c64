package preprocess

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/picture"
	"github.com/edgewise-ai/edgewise/test/fakegpu"
)

// TestKernelIsThatOfItsSource makes the checked-in PTX again where clang 19 is; PTX of another release is worded
// otherwise.
func TestKernelIsThatOfItsSource(t *testing.T) {
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Log("clang-19 is not here: the kernel is not made again")
		return
	}
	made := filepath.Join(t.TempDir(), "made.ptx")
	if out, err := exec.Command("kernel/make.sh", made).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(made)
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != ptx {
		t.Error(`kernel/preprocess.ptx is not what its source makes: run "make ptx"`)
	}
}

// TestKernelTakesWhatIsLaunched looks in the PTX for what Go assumes of it.
func TestKernelTakesWhatIsLaunched(t *testing.T) {
	for _, name := range []string{"preprocess_f32", "preprocess_f16"} {
		_, rest, ok := strings.Cut(ptx, ".visible .entry "+name+"(")
		if !ok {
			t.Fatalf("no %s", name)
		}
		parameters, _, _ := strings.Cut(rest, ")")
		var types []string
		for _, m := range regexp.MustCompile(`\.param \.(\w+)`).FindAllStringSubmatch(parameters, -1) {
			types = append(types, m[1])
		}
		if got := strings.Join(types, " "); got != "u64 u64 u32 u32 f32 f32 f32 f32 f32 f32" {
			t.Errorf("%s takes %s", name, got)
		}
	}
	if !regexp.MustCompile(`mul\.wide\.u32\s+%rd\d+, %r\d+, 32;`).MatchString(ptx) {
		t.Errorf("the table's entries are not of %d bytes", descriptor)
	}
	if regexp.MustCompile(`fma|(mul|add|sub)\.f32`).MatchString(ptx) {
		t.Error("the device may join multiplications and additions, and round otherwise than the CPU")
	}
	if !strings.Contains(ptx, ".target sm_75") {
		t.Error("it is for another generation")
	}
}

// device is the fake one, with a stream.
type device struct {
	t      *testing.T
	ctx    *cuda.Ctx
	stream *cuda.Stream
	kernel *Kernel
}

func newDevice(t *testing.T) *device {
	t.Helper()
	fakegpu.New(t)
	driver, err := cuda.Open([]string{fakegpu.Build(t, "libcuda")})
	if err != nil {
		t.Fatal(err)
	}
	first, err := driver.GetDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	d := &device{t: t}
	if d.ctx, err = first.Retain(); err != nil {
		t.Fatal(err)
	}
	if d.stream, err = d.ctx.MakeStream(); err != nil {
		t.Fatal(err)
	}
	if d.kernel, err = Load(d.ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.kernel.Close(), d.stream.Close(), d.ctx.Close()); err != nil {
			t.Error(err)
		}
	})
	return d
}

// send copies bytes to memory of the device.
func (d *device) send(data []byte) cuda.DevicePtr {
	p, err := d.ctx.MemAlloc(int64(len(data)))
	if err == nil {
		err = d.ctx.MemcpyHtoD(p, data)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

type image struct {
	data []byte
	part Part
}

// run makes the tensor on the device.
func (d *device) run(list []image, kind edgewise.DataType, out Size, normal Normal) []byte {
	var sources []Source
	for _, i := range list {
		sources = append(sources, Source{d.send(i.data), i.part})
	}
	table := make([]byte, TableSize(len(list)))
	if err := Table(table, sources, out); err != nil {
		d.t.Fatal(err)
	}
	result := make([]byte, int64(len(list)*3*out.Width*out.Height)*kind.Size())
	to, at := d.send(result), d.send(table)
	err := errors.Join(d.kernel.Run(d.stream, at, len(list), to, kind, out, normal), d.stream.Synchronize(),
		d.ctx.MemcpyDtoH(result, to))
	for _, s := range sources {
		err = errors.Join(err, d.ctx.MemFree(s.At))
	}
	if err = errors.Join(err, d.ctx.MemFree(to), d.ctx.MemFree(at)); err != nil {
		d.t.Fatal(err)
	}
	return result
}

// TestDeviceAndCPUAgreeBitForBit draws batches of pictures of any size and part. The fake device computes in C.
func TestDeviceAndCPUAgreeBitForBit(t *testing.T) {
	d := newDevice(t)
	normal := Normal{Mean: [3]float32{123.675, 116.28, 103.53}, Scale: [3]float32{1 / 58.395, 1 / 57.12, 1 / 57.375}}
	rapid.Check(t, func(r *rapid.T) {
		side := func(name string) int { return rapid.IntRange(1, 24).Draw(r, name) }
		out := Size{side("width"), side("height")}
		var list []image
		for range rapid.IntRange(1, 4).Draw(r, "pictures") {
			w, h := side("w"), side("h")
			x, y := rapid.IntRange(0, w-1).Draw(r, "x"), rapid.IntRange(0, h-1).Draw(r, "y")
			stride := 3*w + rapid.IntRange(0, 5).Draw(r, "gap")
			list = append(list, image{
				rapid.SliceOfN(rapid.Byte(), stride*h, stride*h).Draw(r, "pixels"),
				Part{x, y, Size{w - x, h - y}, stride},
			})
		}
		f32, f16 := d.run(list, edgewise.FP32, out, normal), d.run(list, edgewise.FP16, out, normal)
		for n, i := range list {
			p := edgewise.Picture{
				Pixels: i.data, Stride: i.part.Stride, X: i.part.X, Y: i.part.Y, Width: i.part.Size.Width,
				Height: i.part.Size.Height, Mean: normal.Mean, Scale: normal.Scale,
			}
			for kind, got := range map[edgewise.DataType][]byte{edgewise.FP32: f32, edgewise.FP16: f16} {
				want := make([]byte, len(got)/len(list))
				picture.Planes(&p, want, kind, out.Width, out.Height, func() {})
				if string(got[n*len(want):(n+1)*len(want)]) != string(want) {
					r.Fatalf("picture %d is another one as %v on the device", n, kind)
				}
			}
		}
	})
}

func TestPicturesThatDoNotFit(t *testing.T) {
	good := Part{Size: Size{4, 4}, Stride: 12}
	for name, test := range map[string]struct {
		part Part
		out  Size
	}{
		"nothing": {Part{Stride: 12}, Size{1, 1}}, "before": {Part{X: -1, Size: Size{1, 1}, Stride: 12}, Size{1, 1}},
		"beside": {Part{X: 1, Size: Size{4, 4}, Stride: 12}, Size{1, 1}}, "no tensor": {good, Size{}}, "too large": {
			good,
			Size{MaxSide + 1, 1},
		},
	} {
		if err := Table(make([]byte, descriptor), []Source{{0, test.part}},
			test.out); edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Table(nil, []Source{{0, good}}, Size{1, 1}); edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("no table: %v", err)
	}
	k := &Kernel{}
	if err := k.Run(nil, 0, 1, 0, edgewise.Int8, Size{1, 1}, Normal{}); edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("another type: %v", err)
	}
}
