package sdk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/samples"
)

func numbers(v ...int) edgewise.Tensor {
	var data []byte
	for _, n := range v {
		data = binary.LittleEndian.AppendUint32(data, uint32(n))
	}
	return edgewise.Tensor{Name: "numbers", Type: edgewise.Int32, Shape: edgewise.Shape{int64(len(v))}, Data: data}
}

func TestPixelLoopsOfTheSDKAreThoseOfTheKernels(t *testing.T) {
	l := loaded(t, built(t, "testdata/pure"), nil)
	r := rand.New(rand.NewPCG(4, 4))
	for _, s := range [][4]int{{17, 13, 17, 13}, {64, 48, 20, 30}, {5, 7, 40, 21}, {1, 1, 8, 8}, {100, 3, 1, 1}, {33, 90, 64, 64}} {
		for channels := 1; channels <= 4; channels++ {
			data := make([]byte, s[0]*s[1]*channels)
			for i := range data {
				data[i] = byte(r.IntN(256))
			}
			pixels := edgewise.Tensor{Name: "pixels", Type: edgewise.Uint8, Shape: edgewise.Shape{int64(len(data))}, Data: data}
			for _, do := range []string{"resize", "letterbox"} {
				for mode := range 3 {
					outputs := run(t, l, parameters{"do", do}, pixels, numbers(s[0], s[1], s[2], s[3], channels, mode))
					off := 1.0 // where a sum lies between two whole numbers
					if mode == 0 {
						off = 0
					}
					same(t, fmt.Sprintf("%s %v, %d channels, mode %d", do, s, channels, mode), samples.Values(outputs["pure"]),
						samples.Values(outputs["kernel"]), off, off)
				}
			}
			for flags := range 4 {
				outputs := run(t, l, parameters{"do", "normalize"}, pixels, numbers(s[0], s[1], s[0], s[1], channels, flags))
				same(t, fmt.Sprintf("normalize %v, %d channels, flags %d", s, channels, flags), samples.Values(outputs["pure"]),
					samples.Values(outputs["kernel"]), 1e-6, 1e-3)
			}
		}
	}
}

func TestScoreLoopsOfTheSDKAreThoseOfTheKernels(t *testing.T) {
	l := loaded(t, built(t, "testdata/pure"), nil)
	r := rand.New(rand.NewPCG(5, 5))
	for _, cols := range []int{1, 3, 4, 50, 1000} {
		scores := make([]float32, 4*cols)
		for i := range scores {
			scores[i] = float32(r.IntN(200)-100) / 4 // equal ones among them
		}
		if cols > 3 {
			scores[cols+2] = float32(math.NaN())
		}
		for i := range cols {
			scores[2*cols+i] = float32(math.Inf(-1))
		}
		in := samples.Floats("values", scores, 4, int64(cols))
		softmax := run(t, l, parameters{"do", "softmax"}, in, numbers(0))
		pure, kernel := samples.Values(softmax["pure"]), samples.Values(softmax["kernel"])
		for i := range pure {
			if a, b := float64(pure[i]), float64(kernel[i]); math.IsNaN(a) != math.IsNaN(b) || math.Abs(a-b) > 1e-6 {
				t.Fatalf("softmax of %d: value %d is %v, the kernel's %v", cols, i, a, b)
			}
		}
		for _, k := range []int{1, min(5, cols), cols} {
			top := run(t, l, parameters{"do", "top_k"}, in, numbers(k))
			if !bytes.Equal(top["pure"].Data, top["kernel"].Data) {
				t.Fatalf("the %d largest of %d: %v, the kernel has %v", k, cols, integers(top["pure"]), integers(top["kernel"]))
			}
		}
	}
	for range 20 {
		n := r.IntN(60)
		var rows []float32
		for range n {
			x, y := float32(r.IntN(100)), float32(r.IntN(100))
			w, h := float32(r.IntN(60)-3), float32(r.IntN(60)-3) // some of negative size, some empty
			rows = append(rows, x, y, x+w, y+h, float32(r.IntN(20))/20, float32(r.IntN(3)))
		}
		if n > 2 {
			rows[6] = float32(math.NaN())
			rows[6*2+4] = float32(math.NaN())
		}
		for classes := range 2 {
			outputs := run(t, l, parameters{"do", "nms"}, samples.Floats("values", rows, int64(n), 6), numbers(classes))
			if !bytes.Equal(outputs["pure"].Data, outputs["kernel"].Data) {
				t.Fatalf("%d boxes: %v, the kernel keeps %v", n, integers(outputs["pure"]), integers(outputs["kernel"]))
			}
		}
	}
}
