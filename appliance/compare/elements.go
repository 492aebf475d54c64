package compare

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/scalar"
)

// exact compares the bits of each element.
func (c *comparison) exact() error {
	if c.want.Type != c.got.Type {
		return fmt.Errorf("the data type is %v, want %v", c.got.Type, c.want.Type)
	}
	if err := c.sameShape(); err != nil {
		return err
	}
	if c.identical() {
		c.found.Compared, _ = c.want.Shape.Elements()
		return nil
	}
	next, stop := iter.Pull(elements(c.got))
	defer stop()
	place := int64(0)
	for want := range elements(c.want) {
		got, _ := next()
		at := place
		place++
		if bytes.Equal(want, got) {
			c.same(0)
			continue
		}
		by := 1.0 // of texts
		if c.want.Type != edgewise.Bytes {
			by = distance(scalar.Float(c.want.Type, want), scalar.Float(c.got.Type, got))
		}
		c.differs(by, func() admin.ElementDifference {
			return admin.ElementDifference{
				Index: indexOf(c.want.Shape, at), Want: written(c.want.Type, want), Got: written(c.got.Type, got),
			}
		})
	}
	return nil
}

// tolerance compares numbers. What is no number, and the infinities, equal themselves alone.
func (c *comparison) tolerance() error {
	if err := c.numbers(); err != nil {
		return err
	}
	if err := c.sameShape(); err != nil {
		return err
	}
	if c.identical() {
		c.found.Compared, _ = c.want.Shape.Elements()
		return nil
	}
	absolute, relative := c.rule.Absolute, c.rule.Relative
	if absolute == 0 && relative == 0 {
		absolute, relative = tolerances(c.want.Type)
	}
	want, got := numbersOf(c.want), numbersOf(c.got)
	for place := range want.n {
		w, g := want.at(place), got.at(place)
		by := distance(w, g)
		if by <= absolute+relative*math.Abs(w) && !math.IsInf(by, 1) {
			c.same(by)
			continue
		}
		c.differs(by, func() admin.ElementDifference {
			return admin.ElementDifference{Index: indexOf(c.want.Shape, place), Want: decimal(w), Got: decimal(g)}
		})
	}
	return nil
}

// distance returns by how much two numbers differ, infinity where that is no number.
func distance(a, b float64) float64 {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	if by := math.Abs(a - b); !math.IsNaN(by) {
		return by
	}
	return math.Inf(1)
}

// elements yields the bytes of each element, of texts without their lengths.
func elements(t *edgewise.Tensor) iter.Seq[[]byte] {
	if t.Type == edgewise.Bytes {
		return edgewise.Elements(t.Data)
	}
	return func(yield func([]byte) bool) {
		size := t.Type.Size()
		for data := t.Data; len(data) > 0; data = data[size:] {
			if !yield(data[:size]) {
				return
			}
		}
	}
}

// numbers are the elements of a tensor of numbers.
type numbers struct {
	t    edgewise.DataType
	size int64
	data []byte
	n    int64
}

func numbersOf(t *edgewise.Tensor) numbers {
	size := t.Type.Size()
	return numbers{t.Type, size, t.Data, int64(len(t.Data)) / size}
}

func (n numbers) at(place int64) float64 { return scalar.Float(n.t, n.data[place*n.size:]) }

// written returns an element as text.
func written(t edgewise.DataType, element []byte) string {
	switch {
	case t == edgewise.Bytes:
		return strconv.Quote(string(element[:min(len(element), maxTextBytes)]))
	case t.IsFloat():
		return decimal(scalar.Float(t, element))
	}
	return string(scalar.AppendInteger(nil, t, element))
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'g', 9, 64) }
