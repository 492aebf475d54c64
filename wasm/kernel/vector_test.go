package kernel

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// same tells whether two rows have the same bits; any NaN is as good as another.
func same(a, b []float32) bool {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && (a[i] == a[i] || b[i] == b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// TestVectorsHaveTheBitsOfThePlainLoops holds whole rows against the plain loops alone, of all widths around those that
// vectors do at a time. What is behind a row must stay as it was.
func TestVectorsHaveTheBitsOfThePlainLoops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := rapid.IntRange(2, 70).Draw(t, "from"), rapid.IntRange(1, 70).Draw(t, "to")
		src := rapid.SliceOfN(rapid.Byte(), 3*from, 3*from).Draw(t, "src")
		across := pairs(bilinearTaps(from, to))
		const guard = 7
		got, want := make([]float32, 3*to+guard), make([]float32, 3*to+guard)
		for i := range guard {
			got[3*to+i], want[3*to+i] = -1, -1
		}
		weighColours(got[:3*to], src, across)
		weighRest(want, src, across, 0)
		if !same(got, want) {
			t.Fatalf("weighed: %v, want %v", got, want)
		}

		far := rapid.Float32Range(0, 1).Draw(t, "weight")
		other := make([]float32, 3*to)
		for i := range other {
			other[i] = 255 - want[i]
		}
		row, plain := bytes.Repeat([]byte{77}, 3*to+guard), bytes.Repeat([]byte{77}, 3*to+guard)
		blend(row[:3*to], want[:3*to], other, 1-far, far)
		blendRest(plain[:3*to], want, other, 1-far, far, 0)
		if !bytes.Equal(row, plain) {
			t.Fatalf("blended: %v, want %v", row, plain)
		}
	})
}

func TestColoursAreSplitWithTheBitsOfThePlainLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 70).Draw(t, "pixels")
		src := rapid.SliceOfN(rapid.Byte(), 3*n, 3*n).Draw(t, "src")
		var mean, scale [3]float32
		for c := range 3 {
			mean[c], scale[c] = rapid.Float32().Draw(t, "mean"), rapid.Float32().Draw(t, "scale")
		}
		planes := func() (all Floats, parts [3]Floats) {
			all = bytes.Repeat([]byte{99}, 3*(4*n+4))
			for c := range parts {
				parts[c] = all[c*(4*n+4):][:4*n]
			}
			return all, parts
		}
		got, into := planes()
		split(into, src, mean, scale)
		want, plain := planes()
		splitRest(plain, src, mean, scale, 0)
		numbers := func(f Floats) (list []float32) {
			for i := range len(f) / 4 {
				list = append(list, f.at(i))
			}
			return list
		}
		if !same(numbers(got), numbers(want)) {
			t.Fatalf("%v, want %v", numbers(got), numbers(want))
		}
	})
}
