package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// rows calls visit for each row, with where it begins. The error says why there are none to compare.
func (c *comparison) rows(visit func(want, got numbers, from, length int64)) error {
	if err := c.numbers(); err != nil {
		return err
	}
	if err := c.sameShape(); err != nil {
		return err
	}
	if len(c.want.Shape) == 0 {
		return fmt.Errorf("the rule %q takes rows of numbers, got one number", c.rule.Kind)
	}
	length := c.want.Shape[len(c.want.Shape)-1]
	if length == 0 {
		return nil
	}
	want, got := numbersOf(c.want), numbersOf(c.got)
	for from := int64(0); from < want.n; from += length {
		visit(want, got, from, length)
	}
	return nil
}

// rowIndex returns the index of the row that begins at a place.
func rowIndex(shape edgewise.Shape, from int64) []int64 { return indexOf(shape, from)[:len(shape)-1] }

// topK compares which elements of each row are the largest. An element that is among the K best of the expected row has
// to be among the K best of the row, or below them by Absolute at most, so that equal elements are in any order. A row
// that does not tell its best elements apart ranks nothing and differs, unless the expected one is like it.
func (c *comparison) topK() error {
	k := cmp.Or(c.rule.K, 1)
	return c.rows(func(want, got numbers, from, length int64) {
		best, found := largest(want, from, length, k), largest(got, from, length, k)
		least := ordered(got.at(from + found[len(found)-1]))
		by := 0.0
		for _, i := range best {
			if v := ordered(got.at(from + i)); v < least {
				by = max(by, distance(least, v))
			}
		}
		ties := atLeast(got, from, length, least)
		tied := ties > int64(k) && (ties > maxTies*int64(k) || ties == length) &&
			ties > atLeast(want, from, length, ordered(want.at(from+best[len(best)-1])))
		if by <= c.rule.Absolute && !math.IsInf(by, 1) && !tied {
			c.same(by)
			return
		}
		c.differs(by, func() admin.ElementDifference {
			d := admin.ElementDifference{
				Index: rowIndex(c.want.Shape, from), Want: ranking(want, from, best), Got: ranking(got, from, found),
			}
			if tied {
				d.Got = fmt.Sprintf("%d elements are as good as the best %d: %s", ties, k, d.Got)
			}
			return d
		})
	})
}

// maxTies is how many times as many elements as K may share the places of the best, as numbers of few bits do.
const maxTies = 2

// atLeast counts the elements of a row that are not below a number.
func atLeast(row numbers, from, length int64, least float64) (n int64) {
	for i := range length {
		if ordered(row.at(from+i)) >= least {
			n++
		}
	}
	return n
}

// ordered returns v, what is no number as the least of all.
func ordered(v float64) float64 {
	if math.IsNaN(v) {
		return math.Inf(-1)
	}
	return v
}

// largest returns the places of the k largest elements of a row, the largest first, of equal ones the first.
func largest(row numbers, from, length int64, k int) []int64 {
	best := make([]int64, 0, min(int64(k), length)+1)
	for i := range length {
		v := ordered(row.at(from + i))
		full := int64(len(best)) == min(int64(k), length)
		if full && ordered(row.at(from+best[len(best)-1])) >= v {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, v, func(other int64, v float64) int {
			if ordered(row.at(from+other)) >= v {
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, i)
		if full {
			best = best[:len(best)-1]
		}
	}
	return best
}

// maxRanked bounds the elements of a ranking in a report.
const maxRanked = 5

// ranking writes the best elements of a row.
func ranking(row numbers, from int64, best []int64) string {
	var b strings.Builder
	for i, at := range best[:min(len(best), maxRanked)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d (%s)", at, decimal(row.at(from+at)))
	}
	return b.String()
}

// cosine compares the directions of rows.
func (c *comparison) cosine() error {
	least := cmp.Or(c.rule.Minimum, defaultCosine)
	return c.rows(func(want, got numbers, from, length int64) {
		similarity := cosineOf(want, got, from, length)
		if similarity >= least {
			c.same(1 - similarity)
			return
		}
		c.differs(1-similarity, func() admin.ElementDifference {
			return admin.ElementDifference{
				Index: rowIndex(c.want.Shape, from), Want: fmt.Sprintf("a cosine of %v or more", least),
				Got: decimal(similarity),
			}
		})
	})
}

// cosineOf returns the cosine similarity of two rows, -1 when one has an element that is no finite number, 1 for two
// rows of zeros, and 0 when one has nothing but zeros.
func cosineOf(want, got numbers, from, length int64) float64 {
	scale := [2]float64{}
	for i := range length {
		scale[0] = math.Max(scale[0], math.Abs(want.at(from+i)))
		scale[1] = math.Max(scale[1], math.Abs(got.at(from+i)))
	}
	switch sum := scale[0] + scale[1]; {
	case math.IsNaN(sum) || math.IsInf(scale[0], 1) || math.IsInf(scale[1], 1):
		return -1
	case scale[0] == 0 && scale[1] == 0:
		return 1
	case scale[0] == 0 || scale[1] == 0:
		return 0
	}
	var dot, a, b float64
	for i := range length {
		x, y := want.at(from+i)/scale[0], got.at(from+i)/scale[1] // so that no square is beyond a float64
		dot, a, b = dot+x*y, a+x*x, b+y*y
	}
	return min(dot/math.Sqrt(a*b), 1)
}
