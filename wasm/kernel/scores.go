package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Floats is a row of little-endian FP32.
type Floats []byte

func (f Floats) at(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(f[4*i:])) }

func (f Floats) set(i int, v float32) { binary.LittleEndian.PutUint32(f[4*i:], math.Float32bits(v)) }

// Softmax writes the softmax of each row of src, rows x cols, into dst, which may be src.
func Softmax(dst, src Floats, rows, cols int, check Check) error {
	if err := matrix(rows, cols); err != nil {
		return err
	}
	p := pacer{check: check}
	for r := range rows {
		softmaxRow(dst[4*r*cols:][:4*cols], src[4*r*cols:][:4*cols], cols, &p)
	}
	return nil
}

func softmaxRow(out, in Floats, cols int, p *pacer) {
	most := float32(math.Inf(-1))
	p.each(cols, 2, func(i int) { most = max(most, in.at(i)) }) // NaN when there is one
	sum := 0.0
	p.each(cols, 16, func(i int) {
		e := math.Exp(float64(in.at(i) - most))
		out.set(i, float32(e))
		sum += e
	})
	factor := 1 / sum
	p.each(cols, 2, func(i int) { out.set(i, float32(float64(out.at(i))*factor)) })
}

func matrix(rows, cols int) error {
	if rows < 0 || cols < 1 || rows > MaxRows || rows*cols > MaxPixels*MaxChannels {
		return fmt.Errorf("%d rows of %d: at most %d rows and %d numbers are allowed, and at least one column", rows, cols,
			MaxRows, MaxPixels*MaxChannels)
	}
	return nil
}

// TopK writes, for each row of src, the k largest numbers and their places.
func TopK(values Floats, indices []byte, src Floats, rows, cols, k int, check Check) error {
	if err := matrix(rows, cols); err != nil {
		return err
	}
	if k < 1 || k > cols || k > MaxK {
		return fmt.Errorf("k is %d: want 1 to %d, and at most %d", k, cols, MaxK)
	}
	p := pacer{check: check}
	heap := make([]int32, 0, k)
	for r := range rows {
		row := src[4*r*cols:][:4*cols]
		heap = largest(heap[:0], row, cols, k, &p)
		for i, at := range heap {
			values.set(r*k+i, row.at(int(at)))
			binary.LittleEndian.PutUint32(indices[4*(r*k+i):], uint32(at))
		}
	}
	return nil
}

// better tells whether place a of a row comes before place b: larger, or as large and earlier; NaN comes last.
func better(row Floats, a, b int32) bool {
	x, y := row.at(int(a)), row.at(int(b))
	switch {
	case x > y:
		return true
	case x < y:
		return false
	case x == y:
		return a < b
	}
	if nx, ny := x != x, y != y; nx != ny {
		return ny
	}
	return a < b
}

// largest fills heap with the places of the k best, best first. The heap's root is the worst of those kept.
func largest(heap []int32, row Floats, cols, k int, p *pacer) []int32 {
	for i := range int32(cols) {
		if len(heap) < k {
			heap = append(heap, i)
			up(heap, row)
			p.add(8)
			continue
		}
		if better(row, i, heap[0]) {
			heap[0] = i
			down(heap, row)
			p.add(8)
		}
		p.add(2)
	}
	slices.SortFunc(heap, func(a, b int32) int {
		if better(row, a, b) {
			return -1
		}
		return 1
	})
	p.add(16 * k)
	return heap
}

func up(heap []int32, row Floats) {
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if better(row, heap[i], heap[parent]) {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

func down(heap []int32, row Floats) {
	for i := 0; ; {
		worst := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(heap) && better(row, heap[worst], heap[child]) {
				worst = child
			}
		}
		if worst == i {
			return
		}
		heap[i], heap[worst] = heap[worst], heap[i]
		i = worst
	}
}

// Boxes are what NMS chooses from.
type Boxes struct {
	Corners Floats // x1, y1, x2, y2 of each
	Scores  Floats
	Classes []byte // int32 of each; nil: one class
	Count   int
}

// NMS writes the places of the boxes that are kept into dst, best first, and returns how many there are.
func NMS(dst []byte, b Boxes, iou, score float32, most int, check Check) (int, error) {
	if b.Count < 0 || b.Count > MaxBoxes {
		return 0, fmt.Errorf("count is %d: at most %d boxes are allowed", b.Count, MaxBoxes)
	}
	if most < 0 || most > MaxKept {
		return 0, fmt.Errorf("max is %d: at most %d boxes can be kept", most, MaxKept)
	}
	if iou != iou || score != score {
		return 0, errors.New("a threshold is NaN")
	}
	var order []int32
	for i := range int32(b.Count) {
		if b.Scores.at(int(i)) >= score && b.usable(int(i)) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int32) int {
		if better(b.Scores, i, j) {
			return -1
		}
		return 1
	})
	p := pacer{check: check}
	var kept []int32
	for _, i := range order {
		if len(kept) == most {
			break
		}
		if !b.hidden(i, kept, iou) {
			binary.LittleEndian.PutUint32(dst[4*len(kept):], uint32(i))
			kept = append(kept, i)
		}
		p.add(8 * (len(kept) + 1))
	}
	return len(kept), nil
}

// usable tells whether a box has no NaN and no negative side.
func (b Boxes) usable(i int) bool {
	return b.Corners.at(4*i+2) >= b.Corners.at(4*i) && b.Corners.at(4*i+3) >= b.Corners.at(4*i+1)
}

func (b Boxes) class(i int32) uint32 {
	if b.Classes == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b.Classes[4*i:])
}

// hidden tells whether a kept box of the same class covers box i.
func (b Boxes) hidden(i int32, kept []int32, iou float32) bool {
	for _, k := range kept {
		if b.class(k) == b.class(i) && b.overlap(int(i), int(k)) > iou {
			return true
		}
	}
	return false
}

// overlap is the intersection over union; 0 for two empty boxes.
func (b Boxes) overlap(i, k int) float32 {
	c := b.Corners
	width := min(c.at(4*i+2), c.at(4*k+2)) - max(c.at(4*i), c.at(4*k))
	height := min(c.at(4*i+3), c.at(4*k+3)) - max(c.at(4*i+1), c.at(4*k+1))
	if width <= 0 || height <= 0 {
		return 0
	}
	both := width * height
	union := b.area(i) + b.area(k) - both
	if union <= 0 {
		return 0
	}
	return both / union
}

func (b Boxes) area(i int) float32 {
	c := b.Corners
	return (c.at(4*i+2) - c.at(4*i)) * (c.at(4*i+3) - c.at(4*i+1))
}
