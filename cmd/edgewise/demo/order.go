package demo

import (
	"cmp"
	"math"
	"slices"
)

// A gap counts as the space between two columns of text only between blocks that look like running text; a list of
// names and numbers is read row by row.
const (
	columnGap   = 1.0 // times the median height of lines
	columnLines = 3   // lines in each column
	columnWidth = 5.0 // median width of the lines of a column, times their median height
)

// placed is a line turned to the page's direction, with its index in the text.
type placed struct {
	index     int
	low, high Point
}

// readingOrder returns the indices of lines in the order in which one reads them: from top to bottom and from left to
// right as the page is turned, column after column.
func readingOrder(text []TextLine) []int {
	page := pageAngle(text)
	lines := make([]placed, len(text))
	for i, line := range text {
		q := line.Box
		for k := range q {
			q[k] = q[k].turned(-page)
		}
		low, high := q.bounds()
		lines[i] = placed{i, low, high}
	}
	ordered := blocks(lines)
	indices := make([]int, len(ordered))
	for i, l := range ordered {
		indices[i] = l.index
	}
	return indices
}

// pageAngle is the angle that most of the text has: the median of the angles around the commonest quarter turn, each
// line counting by its width.
func pageAngle(text []TextLine) float64 {
	var weight [4]float64
	var angles [4][]float64
	for _, line := range text {
		q := line.Box
		quarter := (int(math.Round(q.angle()/(math.Pi/2))) + 4) % 4
		weight[quarter] += q.width()
		angles[quarter] = append(angles[quarter], math.Remainder(q.angle()-float64(quarter)*math.Pi/2, 2*math.Pi))
	}
	best := 0
	for quarter := range weight {
		if weight[quarter] > weight[best] {
			best = quarter
		}
	}
	if len(angles[best]) == 0 {
		return 0
	}
	return float64(best)*math.Pi/2 + median(angles[best])
}

// blocks orders lines: by columns where there are columns; else what is above the widest gap between rows comes first;
// else row by row.
func blocks(lines []placed) []placed {
	if left, right, ok := columns(lines); ok {
		return append(blocks(left), blocks(right)...)
	}
	upper, lower := split(lines, func(l placed) (from, to float64) { return l.low.Y, l.high.Y })
	if len(lower) > 0 {
		return append(blocks(upper), blocks(lower)...)
	}
	return rows(lines)
}

// columns parts lines at the widest gap between columns of running text.
func columns(lines []placed) (left, right []placed, ok bool) {
	left, right = split(lines, func(l placed) (from, to float64) { return l.low.X, l.high.X })
	if len(left) < columnLines || len(right) < columnLines {
		return nil, nil, false
	}
	height := medianOf(lines, placed.height)
	gap := math.Inf(1)
	for _, r := range right {
		for _, l := range left {
			gap = min(gap, r.low.X-l.high.X)
		}
	}
	return left, right, gap >= columnGap*height &&
		medianOf(left, placed.width) >= columnWidth*height && medianOf(right, placed.width) >= columnWidth*height
}

func (l placed) height() float64 { return l.high.Y - l.low.Y }
func (l placed) width() float64  { return l.high.X - l.low.X }

// split parts lines at the widest gap between their extents on one axis. after is empty when there is no gap.
func split(lines []placed, extent func(placed) (from, to float64)) (before, after []placed) {
	sorted := slices.Clone(lines)
	slices.SortStableFunc(sorted, func(a, b placed) int {
		x, _ := extent(a)
		y, _ := extent(b)
		return cmp.Compare(x, y)
	})
	at, widest, end := len(sorted), 0.0, math.Inf(-1)
	for i, l := range sorted {
		from, to := extent(l)
		if i > 0 && from-end > widest {
			at, widest = i, from-end
		}
		end = max(end, to)
	}
	return sorted[:at], sorted[at:]
}

// rows orders lines that overlap: a line whose middle lies beside the first one of a row stands in that row.
func rows(lines []placed) []placed {
	sorted := slices.Clone(lines)
	slices.SortStableFunc(sorted, func(a, b placed) int { return cmp.Compare(a.low.Y+a.high.Y, b.low.Y+b.high.Y) })
	for start := 0; start < len(sorted); {
		end := start + 1
		for end < len(sorted) && (sorted[end].low.Y+sorted[end].high.Y)/2 < sorted[start].high.Y {
			end++
		}
		slices.SortStableFunc(sorted[start:end], func(a, b placed) int { return cmp.Compare(a.low.X, b.low.X) })
		start = end
	}
	return sorted
}

func medianOf(lines []placed, measure func(placed) float64) float64 {
	values := make([]float64, len(lines))
	for i, l := range lines {
		values[i] = measure(l)
	}
	return median(values)
}

// median sorts values, of which there is at least one.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
