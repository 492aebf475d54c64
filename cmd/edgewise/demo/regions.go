package demo

import "slices"

// PP-OCR's settings of its detection model's post-processing.
//
// Source: PaddleOCR, the DB post-process (arXiv:1911.08947) as configured for PP-OCRv4. Of its two ways to score a
// region this is the slower one, the mean of the region's own pixels: the mean of the whole rectangle punishes lines
// that are slightly bent, as in photographed pages.
const (
	textThreshold = 0.3  // a pixel this likely belongs to text
	boxThreshold  = 0.6  // the mean probability of a region's pixels from which it is kept
	unclipRatio   = 1.5  // how far the shrunken region is grown: area times this over its outline
	minSide       = 3.0  // pixels of the shorter side of a region, before it is grown
	maxRegions    = 1000 // regions kept of one picture
)

// heat is a map of probabilities, row after row.
type heat struct {
	width, height int
	values        []float32
}

// regions returns the rectangles around what heat marks as text, in the map's pixels, grown to the full text.
func (h heat) regions() []rectangle {
	var found []rectangle
	seen := make([]bool, len(h.values))
	for at, v := range h.values {
		if v <= textThreshold || seen[at] {
			continue
		}
		outline, mean := h.component(at, seen)
		if r, ok := grow(minimumRectangle(outline)); ok && mean >= boxThreshold {
			found = append(found, r)
		}
		if len(found) == maxRegions {
			break
		}
	}
	return found
}

// component marks the pixels that are connected with at, diagonals included, as seen. It returns the first and last
// one of each column, sorted, which is enough for the hull, and the mean probability.
func (h heat) component(at int, seen []bool) (outline []Point, mean float64) {
	type span struct{ top, bottom int }
	columns := map[int]span{}
	pending := []int{at}
	seen[at] = true
	sum, n := 0.0, 0.0
	for ; len(pending) > 0; n++ {
		at = pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		sum += float64(h.values[at])
		x, y := at%h.width, at/h.width
		c, ok := columns[x]
		if !ok {
			c = span{y, y}
		}
		columns[x] = span{min(c.top, y), max(c.bottom, y)}
		for ny := max(0, y-1); ny <= min(h.height-1, y+1); ny++ {
			for nx := max(0, x-1); nx <= min(h.width-1, x+1); nx++ {
				if next := ny*h.width + nx; !seen[next] && h.values[next] > textThreshold {
					seen[next] = true
					pending = append(pending, next)
				}
			}
		}
	}
	outline = make([]Point, 0, 2*len(columns))
	for x, c := range columns {
		outline = append(outline, Point{float64(x), float64(c.top)}, Point{float64(x), float64(c.bottom)})
	}
	slices.SortFunc(outline, func(p, q Point) int {
		if p.X != q.X {
			return int(p.X - q.X)
		}
		return int(p.Y - q.Y)
	})
	return outline, sum / n
}

// grow returns the rectangle of the full text of which r is the core. ok is false when it is too small to read.
func grow(r rectangle) (grown rectangle, ok bool) {
	if min(r.width, r.height) < minSide {
		return r, false
	}
	grown = r.grown(r.width * r.height * unclipRatio / (2 * (r.width + r.height)))
	return grown, min(grown.width, grown.height) >= minSide+2
}
