package native

import (
	"image"
	"math"
)

// target says where values go: channel c of pixel (x, y) is at data[c*channel+y*row+x*pixel], as (v-mean)*scale.
type target struct {
	data                []float32
	pixel, row, channel int
	mean, scale         [3]float32 // of the target's channels
	reverse             bool       // the target's channels are blue, green, red
}

func planar(data []float32, width, height int) target {
	return target{data: data, pixel: 1, row: width, channel: width * height}
}

func interleaved(data []float32, width int) target {
	return target{data: data, pixel: 3, row: 3 * width, channel: 1}
}

// normalised sets mean and 1/std.
func (t target) normalised(mean, std [3]float32) target {
	t.mean = mean
	for c := range t.scale {
		t.scale[c] = 1 / std[c]
	}
	return t
}

func (t target) at(x, y int) target {
	t.data = t.data[y*t.row+x*t.pixel:]
	return t
}

// fill sets the pixels of a target to v.
func (t target) fill(width, height int, v float32) {
	for c := range 3 {
		value := (v - t.mean[c]) * t.scale[c]
		for y := range height {
			for x := range width {
				t.data[c*t.channel+y*t.row+x*t.pixel] = value
			}
		}
	}
}

// taps are the weights of one axis: new pixel i is the sum of the old ones from first[i] on, each times its weight.
type taps struct {
	first   []int
	weights [][]float32
	flat    []float32
}

// make computes the taps of n pixels from begin on, of an axis that goes from from pixels to to: a tent filter.
func (t *taps) make(from, to, begin, n int) {
	scale := float64(from) / float64(to)
	reach := max(1, scale)
	t.first, t.weights, t.flat = t.first[:0], t.weights[:0], grown(t.flat, n*(int(2*reach)+3))
	rest := t.flat
	for i := range n {
		center := (float64(begin+i)+0.5)*scale - 0.5
		low, high := max(0, int(math.Ceil(center-reach))), min(from-1, int(math.Floor(center+reach)))
		weights, sum := rest[:0], 0.0
		for k := low; k <= high; k++ {
			w := max(0, 1-math.Abs(center-float64(k))/reach)
			weights, sum = append(weights, float32(w)), sum+w
		}
		for k := range weights {
			weights[k] = float32(float64(weights[k]) / sum)
		}
		t.first, t.weights, rest = append(t.first, low), append(t.weights, weights), rest[len(weights):]
	}
}

// resampler keeps the buffers of resampling.
type resampler struct {
	across, down taps
	row          []float32
}

// resample makes width x height pixels of part of a picture and writes those of them that lie in window.
func (r *resampler) resample(p *Picture, part image.Rectangle, width, height int, window image.Rectangle, to target) {
	r.across.make(part.Dx(), width, window.Min.X, window.Dx())
	r.down.make(part.Dy(), height, window.Min.Y, window.Dy())
	r.row = grown(r.row, 3*part.Dx())
	for y, first := range r.down.first {
		clear(r.row)
		for k, w := range r.down.weights[y] {
			from := 3 * ((part.Min.Y+first+k)*p.Width + part.Min.X)
			addRow(r.row, p.Pixels[from:], w)
		}
		r.across.apply(r.row, &to, y)
	}
}

// addRow adds weight times bytes to row.
func addRow(row []float32, bytes []byte, weight float32) {
	bytes = bytes[:len(row)]
	for len(row) >= 8 && len(bytes) >= 8 {
		a, b := row[:8:8], bytes[:8:8]
		a[0] += weight * float32(b[0])
		a[1] += weight * float32(b[1])
		a[2] += weight * float32(b[2])
		a[3] += weight * float32(b[3])
		a[4] += weight * float32(b[4])
		a[5] += weight * float32(b[5])
		a[6] += weight * float32(b[6])
		a[7] += weight * float32(b[7])
		row, bytes = row[8:], bytes[8:]
	}
	for i := range row {
		row[i] += weight * float32(bytes[i])
	}
}

// apply makes row y of a target of one row of sums, rounded to whole steps of 0 to 255.
func (t *taps) apply(row []float32, to *target, y int) {
	out := to.data[y*to.row:]
	first, third := 0, 2
	if to.reverse {
		first, third = 2, 0
	}
	for x, at := range t.first {
		var sum [3]float32
		from := row[3*at:]
		for _, w := range t.weights[x] {
			sum[0] += w * from[0]
			sum[1] += w * from[1]
			sum[2] += w * from[2]
			if len(from) < 6 {
				break
			}
			from = from[3:]
		}
		out[x*to.pixel] = (rounded(sum[first]) - to.mean[0]) * to.scale[0]
		out[x*to.pixel+to.channel] = (rounded(sum[1]) - to.mean[1]) * to.scale[1]
		out[x*to.pixel+2*to.channel] = (rounded(sum[third]) - to.mean[2]) * to.scale[2]
	}
}

// rounded returns a value that is not negative in whole steps, 255 at most.
func rounded(v float32) float32 { return float32(int32(min(v+0.5, 255.5))) }
