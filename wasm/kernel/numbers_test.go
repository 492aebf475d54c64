package kernel_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise/picture"
	"github.com/edgewise-ai/edgewise/wasm/kernel"
)

func floats(list []float32) kernel.Floats {
	var f kernel.Floats
	for _, v := range list {
		f = binary.LittleEndian.AppendUint32(f, math.Float32bits(v))
	}
	return f
}

func values(f kernel.Floats) []float32 {
	var list []float32
	for ; len(f) > 0; f = f[4:] {
		list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(f)))
	}
	return list
}

// sample is the plain definition of bilinear sampling at the centre of a pixel.
func sample(src []byte, w, h, n, c int, x, y float64) float64 {
	x, y = min(max(x, 0), float64(w-1)), min(max(y, 0), float64(h-1))
	x0, y0 := int(x), int(y)
	x1, y1 := min(x0+1, w-1), min(y0+1, h-1)
	fx, fy := x-float64(x0), y-float64(y0)
	at := func(x, y int) float64 { return float64(src[(y*w+x)*n+c]) }
	return (at(x0, y0)*(1-fx)+at(x1, y0)*fx)*(1-fy) + (at(x0, y1)*(1-fx)+at(x1, y1)*fx)*fy
}

// area is the plain definition of the mean over a rectangle.
func area(src []byte, w, h, n, c int, x0, y0, x1, y1 float64) float64 {
	sum, weight := 0.0, 0.0
	for y := int(y0); y < h && float64(y) < y1; y++ {
		for x := int(x0); x < w && float64(x) < x1; x++ {
			covered := (min(x1, float64(x+1)) - max(x0, float64(x))) * (min(y1, float64(y+1)) - max(y0, float64(y)))
			sum += covered * float64(src[(y*w+x)*n+c])
			weight += covered
		}
	}
	return sum / weight
}

func TestResizingIsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.IntRange(1, 20)
		from := kernel.Size{Width: side.Draw(t, "w"), Height: side.Draw(t, "h"), Channels: rapid.IntRange(1, 4).Draw(t, "n")}
		to := kernel.Size{Width: side.Draw(t, "W"), Height: side.Draw(t, "H"), Channels: from.Channels}
		src := rapid.SliceOfN(rapid.Byte(), from.Bytes(), from.Bytes()).Draw(t, "src")
		sx, sy := float64(from.Width)/float64(to.Width), float64(from.Height)/float64(to.Height)
		for mode, want := range map[kernel.Mode]func(x, y, c int) float64{
			kernel.Nearest: func(x, y, c int) float64 {
				return float64(src[(int((float64(y)+0.5)*sy)*from.Width+int((float64(x)+0.5)*sx))*from.Channels+c])
			},
			kernel.Bilinear: func(x, y, c int) float64 {
				return sample(src, from.Width, from.Height, from.Channels, c, (float64(x)+0.5)*sx-0.5, (float64(y)+0.5)*sy-0.5)
			},
			kernel.Area: func(x, y, c int) float64 {
				return area(src, from.Width, from.Height, from.Channels, c, float64(x)*sx, float64(y)*sy, float64(x+1)*sx, float64(y+1)*sy)
			},
		} {
			dst := make([]byte, to.Bytes())
			if err := kernel.Resize(dst, to, src, from, mode, none); err != nil {
				t.Fatal(err)
			}
			for i, got := range dst {
				pixel := i / to.Channels
				if exact := want(pixel%to.Width, pixel/to.Width, i%to.Channels); math.Abs(float64(got)-exact) > 0.51 {
					t.Fatalf("mode %d: sample %d is %d, want %.3f", mode, i, got, exact)
				}
			}
		}
	})
}

func TestLetterboxKeepsTheShape(t *testing.T) {
	from, to := kernel.Size{Width: 40, Height: 20, Channels: 1}, kernel.Size{Width: 32, Height: 32, Channels: 1}
	src := make([]byte, from.Bytes())
	for i := range src {
		src[i] = 200
	}
	dst := make([]byte, to.Bytes())
	m, err := kernel.Letterbox(dst, to, src, from, kernel.Bilinear, 114, none)
	if err != nil || m != (kernel.Map{ScaleX: 0.8, ScaleY: 0.8, PadX: 0, PadY: 8}) {
		t.Fatalf("%+v, %v", m, err)
	}
	for i, v := range dst {
		want := byte(114)
		if y := i / 32; y >= 8 && y < 24 {
			want = 200
		}
		if v != want {
			t.Fatalf("row %d is %d, want %d", i/32, v, want)
		}
	}
}

func TestSizesOutOfBoundsAreRefused(t *testing.T) {
	good := kernel.Size{Width: 1, Height: 1, Channels: 1}
	for _, bad := range []kernel.Size{
		{Width: 0, Height: 1, Channels: 1},
		{Width: 1, Height: -1, Channels: 1},
		{Width: kernel.MaxSide + 1, Height: 1, Channels: 1},
		{Width: kernel.MaxSide, Height: kernel.MaxPixels/kernel.MaxSide + 1, Channels: 1},
		{Width: 1, Height: 1, Channels: 0},
		{Width: 1, Height: 1, Channels: kernel.MaxChannels + 1},
	} {
		if kernel.Resize(nil, good, nil, bad, 0, none) == nil || kernel.Resize(nil, bad, nil, good, 0, none) == nil {
			t.Errorf("%+v is accepted by Resize", bad)
		}
		if _, err := kernel.Letterbox(nil, bad, nil, good, 0, 0, none); err == nil {
			t.Errorf("%+v is accepted by Letterbox", bad)
		}
		if kernel.Normalise(nil, nil, bad, nil, nil, kernel.Layout{}, none) == nil {
			t.Errorf("%+v is accepted by Normalise", bad)
		}
	}
	if kernel.Resize(make([]byte, 1), good, make([]byte, 1), good, 3, none) == nil {
		t.Error("mode 3 is accepted")
	}
}

func TestNormaliseInEveryLayout(t *testing.T) {
	src := []byte{0, 10, 20, 30, 40, 250} // two pixels
	size := kernel.Size{Width: 2, Height: 1, Channels: 3}
	mean, scale := []float32{1, 2, 3}, []float32{0.5, 2, 4}
	tests := []struct {
		name   string
		layout kernel.Layout
		want   []float32
	}{
		{"planes", kernel.Layout{}, []float32{-0.5, 14.5, 16, 76, 68, 988}},
		{"interleaved", kernel.Layout{Together: true}, []float32{-0.5, 16, 68, 14.5, 76, 988}},
		{"reversed planes", kernel.Layout{Reverse: true}, []float32{68, 988, 16, 76, -0.5, 14.5}},
		{"reversed and interleaved", kernel.Layout{Together: true, Reverse: true}, []float32{68, 16, -0.5, 988, 76, 14.5}},
	}
	for _, test := range tests {
		dst := make(kernel.Floats, 24)
		if err := kernel.Normalise(dst, src, size, mean, scale, test.layout, none); err != nil || !slices.Equal(values(dst), test.want) {
			t.Errorf("%s: %v, %v", test.name, values(dst), err)
		}
		test.layout.Half = true
		half := make([]byte, 12)
		if err := kernel.Normalise(half, src, size, mean, scale, test.layout, none); err != nil {
			t.Fatal(err)
		}
		for i, v := range test.want {
			if got := binary.LittleEndian.Uint16(half[2*i:]); got != picture.Half(v) {
				t.Errorf("%s: half %d is %#x, want %#x", test.name, i, got, picture.Half(v))
			}
		}
	}
}

func TestSoftmaxSumsToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 3).Draw(t, "rows"), rapid.IntRange(1, 9).Draw(t, "cols")
		list := rapid.SliceOfN(rapid.Float32Range(-1000, 1000), rows*cols, rows*cols).Draw(t, "x")
		f := floats(list)
		if err := kernel.Softmax(f, f, rows, cols, none); err != nil {
			t.Fatal(err)
		}
		got := values(f)
		for r := range rows {
			sum := 0.0
			for c := range cols {
				sum += float64(got[r*cols+c])
				ratio := math.Exp(float64(list[r*cols+c] - list[r*cols]))
				if want := float64(got[r*cols]) * ratio; got[r*cols] > 1e-20 && ratio < 1e20 && math.Abs(float64(got[r*cols+c])-want) > 1e-5*want+1e-7 {
					t.Errorf("%v of %v", got, list)
				}
			}
			if math.Abs(sum-1) > 1e-5 {
				t.Errorf("row %d sums to %v", r, sum)
			}
		}
	})
	nan := floats([]float32{1, float32(math.NaN())})
	if err := kernel.Softmax(nan, nan, 1, 2, none); err != nil || values(nan)[0] == values(nan)[0] {
		t.Errorf("NaN gives %v, %v", values(nan), err)
	}
}

func TestTopKIsASortedPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cols := rapid.IntRange(1, 40).Draw(t, "cols")
		k := rapid.IntRange(1, cols).Draw(t, "k")
		list := rapid.SliceOfN(rapid.SampledFrom([]float32{
			0, 1, 2, 3, -1, float32(math.NaN()), float32(math.Inf(1)),
			float32(math.Inf(-1)), 1.5,
		}), cols, cols).Draw(t, "x")
		order := make([]int, cols)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			x, y := list[a], list[b]
			switch {
			case x > y || x == x && y != y:
				return -1
			case x < y || x != x && y == y:
				return 1
			}
			return 0
		})
		got, indices := make(kernel.Floats, 4*k), make([]byte, 4*k)
		if err := kernel.TopK(got, indices, floats(list), 1, cols, k, none); err != nil {
			t.Fatal(err)
		}
		for i := range k {
			if at := int(binary.LittleEndian.Uint32(indices[4*i:])); at != order[i] {
				t.Fatalf("place %d is %d, want %d of %v", i, at, order[i], list)
			}
		}
	})
}

func TestNMSKeepsWhatNoBetterBoxCovers(t *testing.T) {
	nan := float32(math.NaN())
	b := kernel.Boxes{
		Corners: floats([]float32{0, 0, 10, 10 /**/, 1, 1, 11, 11 /**/, 20, 20, 30, 30 /**/, 0, 0, 10, 10 /**/, 5, 5, 1, 1 /**/, nan, 0, 1, 1}),
		Scores:  floats([]float32{0.8, 0.9, 0.1, 0.7, 1, 1}), Count: 6,
	}
	classes := make([]byte, 24)
	classes[12] = 1
	tests := []struct {
		name       string
		classes    []byte
		iou, score float32
		most       int
		want       []uint32
	}{
		{"one class", nil, 0.5, 0, 10, []uint32{1, 2}},
		{"two classes", classes, 0.5, 0, 10, []uint32{1, 3, 2}},
		{"a score", classes, 0.5, 0.5, 10, []uint32{1, 3}},
		{"all may overlap", nil, 1, 0, 10, []uint32{1, 0, 3, 2}},
		{"at most one", nil, 1, 0, 1, []uint32{1}},
	}
	for _, test := range tests {
		b.Classes = test.classes
		dst := make([]byte, 40)
		n, err := kernel.NMS(dst, b, test.iou, test.score, test.most, none)
		var got []uint32
		for i := range n {
			got = append(got, binary.LittleEndian.Uint32(dst[4*i:]))
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v; want %v", test.name, got, err, test.want)
		}
	}
}

func TestBoundsOfTheScores(t *testing.T) {
	one := floats([]float32{1})
	index := make([]byte, 4)
	for name, err := range map[string]error{
		"no columns":    kernel.Softmax(one, one, 1, 0, none),
		"too many rows": kernel.Softmax(one, one, kernel.MaxRows+1, 1, none),
		"too many":      kernel.Softmax(one, one, kernel.MaxRows, 65, none),
		"k of 0":        kernel.TopK(one, index, one, 1, 1, 0, none),
		"k above cols":  kernel.TopK(one, index, one, 1, 1, 2, none),
		"k above all":   kernel.TopK(one, index, one, 1, kernel.MaxK+1, kernel.MaxK+1, none),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for name, try := range map[string]struct {
		count, most int
		iou         float32
	}{"boxes": {kernel.MaxBoxes + 1, 1, 0}, "kept": {0, kernel.MaxKept + 1, 0}, "a threshold": {0, 1, float32(math.NaN())}} {
		if _, err := kernel.NMS(nil, kernel.Boxes{Count: try.count}, try.iou, 0, try.most, none); err == nil {
			t.Errorf("too many %s are accepted", name)
		}
	}
}

// TestLongWorkIsInterrupted counts how often kernels look at their Check.
func TestLongWorkIsInterrupted(t *testing.T) {
	calls := 0
	check := func() { calls++ }
	size := kernel.Size{Width: 1000, Height: 1000, Channels: 3}
	big := make([]byte, size.Bytes())
	small := kernel.Size{Width: 300, Height: 300, Channels: 3}
	row := make(kernel.Floats, 4*1_000_000)
	for name, work := range map[string]func() error{
		"resize": func() error { return kernel.Resize(make([]byte, small.Bytes()), small, big, size, kernel.Area, check) },
		"nearest": func() error {
			return kernel.Resize(big, size, make([]byte, small.Bytes()), small, kernel.Nearest, check)
		},
		"normalise": func() error {
			return kernel.Normalise(make([]byte, 4*len(big)), big, size, make([]float32, 3), make([]float32, 3), kernel.Layout{}, check)
		},
		"softmax": func() error { return kernel.Softmax(row, row, 1000, 1000, check) },
		"top_k": func() error {
			return kernel.TopK(make(kernel.Floats, 40), make([]byte, 40), row, 1, 1_000_000, 10, check)
		},
	} {
		calls = 0
		if err := work(); err != nil || calls < 10 {
			t.Errorf("%s: %d checks, %v", name, calls, err)
		}
	}
}
