package compare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

const (
	boxNumbers = 4 // of a row that are the box

	maxPictures = 1000   // of an output
	maxBoxes    = 2000   // of a picture: each is compared with each
	maxRows     = 16_000 // of an output
)

// box is one box of an output.
type box struct {
	x1, y1, x2, y2 float64
	class, score   float64
	index          []int64
	matched        bool
}

func (b box) String() string {
	return fmt.Sprintf("(%.6g, %.6g) to (%.6g, %.6g), class %v, score %.6g", b.x1, b.y1, b.x2, b.y2, b.class, b.score)
}

// boxes compares boxes in any order. An expected box needs one in the answer that has its class and overlaps it, and a
// box of the answer an expected one; each counts for one other. Boxes below the least score need none.
func (c *comparison) boxes() error {
	layout := admin.Boxes{}
	if c.rule.Boxes != nil {
		layout = *c.rule.Boxes
	}
	want, err := boxesOf(layout, c.want, c.wanted)
	if err != nil {
		return fmt.Errorf("the expected boxes: %w", err)
	}
	got, err := boxesOf(layout, c.got, c.answered)
	if err != nil {
		return err
	}
	if len(want) != len(got) {
		return fmt.Errorf("there are boxes of %d pictures, want %d", len(got), len(want))
	}
	scored := layout.Scores != "" || layout.ScoreColumn != 0
	needs := func(b box) bool { return !scored || b.score >= layout.Score }
	for picture := range want {
		c.match(want[picture], got[picture], needs)
	}
	return nil
}

// match finds the counterparts of the boxes of one picture.
func (c *comparison) match(want, got []box, needs func(box) bool) {
	least := cmp.Or(c.rule.Minimum, defaultOverlap)
	slices.SortStableFunc(want, func(a, b box) int { return cmp.Compare(b.score, a.score) })
	for i := range want {
		nearest, overlap := -1, 0.0
		for k := range got {
			if got[k].matched || got[k].class != want[i].class {
				continue
			}
			if o := overlapOf(want[i], got[k]); o > overlap {
				nearest, overlap = k, o
			}
		}
		if found := nearest >= 0 && overlap >= least; found {
			want[i].matched, got[nearest].matched = true, true
			c.same(1 - overlap)
			continue
		}
		if needs(want[i]) {
			c.differs(1-overlap, func() admin.ElementDifference {
				d := admin.ElementDifference{Index: want[i].index, Want: want[i].String(), Got: "no box of this class there"}
				if nearest >= 0 {
					d.Got = fmt.Sprintf("%v, overlap %.3g", got[nearest], overlap)
				}
				return d
			})
		}
	}
	for _, extra := range got {
		if !extra.matched && needs(extra) {
			c.differs(1, func() admin.ElementDifference {
				return admin.ElementDifference{Index: extra.index, Got: extra.String()}
			})
		}
	}
}

// overlapOf returns the intersection of two boxes over their union, 1 for equal boxes without an area.
func overlapOf(a, b box) float64 {
	if a.x1 == b.x1 && a.y1 == b.y1 && a.x2 == b.x2 && a.y2 == b.y2 {
		return 1
	}
	width, height := min(a.x2, b.x2)-max(a.x1, b.x1), min(a.y2, b.y2)-max(a.y1, b.y1)
	if !(width > 0 && height > 0) {
		return 0
	}
	both := width * height
	overlap := both / ((a.x2-a.x1)*(a.y2-a.y1) + (b.x2-b.x1)*(b.y2-b.y1) - both)
	if !(overlap >= 0 && overlap <= 1) { // of numbers beyond a float64
		return 0
	}
	return overlap
}

// boxesOf reads the boxes of an output, by picture.
func boxesOf(layout admin.Boxes, t *edgewise.Tensor, all []edgewise.Tensor) ([][]box, error) {
	rank := len(t.Shape)
	if t.Type == edgewise.Bytes || rank < 2 {
		return nil, fmt.Errorf("%v%v holds no boxes: want numbers in at least 2 dimensions", t.Type, t.Shape)
	}
	columns, count := t.Shape[rank-1], t.Shape[rank-2]
	if least := max(boxNumbers, layout.ClassColumn+1, layout.ScoreColumn+1); columns < int64(least) {
		return nil, fmt.Errorf("the rows of %v have %d numbers, want at least %d", t.Shape, columns, least)
	}
	values := numbersOf(t)
	rows := values.n / columns
	batch, ok := t.Shape[:rank-2].Elements()
	if !ok || batch > maxPictures || count > maxBoxes || rows > maxRows {
		return nil, fmt.Errorf("%v has too many boxes: at most %d pictures of %d boxes each, and %d in all, are compared",
			t.Shape, maxPictures, maxBoxes, maxRows)
	}
	class, err := partOf(all, layout.Classes, "classes", rows)
	if err != nil {
		return nil, err
	}
	score, err := partOf(all, layout.Scores, "scores", rows)
	if err != nil {
		return nil, err
	}
	pictures := make([][]box, batch)
	for row := range rows {
		at := row * columns
		b := boxAt(layout.Form, values, at)
		b.class, b.score, b.index = class(row), score(row), indexOf(t.Shape, at)[:rank-1]
		if layout.ClassColumn != 0 {
			b.class = values.at(at + int64(layout.ClassColumn))
		}
		if layout.ScoreColumn != 0 {
			b.score = values.at(at + int64(layout.ScoreColumn))
		}
		pictures[row/count] = append(pictures[row/count], b)
	}
	return pictures, nil
}

// boxAt reads the box of the row that begins at a place.
func boxAt(form string, values numbers, at int64) box {
	a, b, c, d := values.at(at), values.at(at+1), values.at(at+2), values.at(at+3)
	if form == formCenter {
		return box{x1: a - c/2, y1: b - d/2, x2: a + c/2, y2: b + d/2}
	}
	return box{x1: a, y1: b, x2: c, y2: d}
}

// partOf returns how to read the number of each row of boxes from the output that has it; 0 when no output does.
func partOf(all []edgewise.Tensor, name, what string, rows int64) (func(row int64) float64, error) {
	if name == "" {
		return func(int64) float64 { return 0 }, nil
	}
	t := output(all, name)
	if t == nil {
		return nil, fmt.Errorf("there is no output %q with their %s", name, what)
	}
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("output %q with their %s is not well-formed: %w", name, what, err)
	}
	if t.Type == edgewise.Bytes {
		return nil, fmt.Errorf("output %q with their %s holds no numbers", name, what)
	}
	values := numbersOf(t)
	if values.n != rows {
		return nil, fmt.Errorf("output %q has %d %s for %d boxes", name, values.n, what, rows)
	}
	return values.at, nil
}
