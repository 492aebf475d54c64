package compare

import (
	"fmt"
	"iter"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// maxEditCells bounds the work that the distances of the texts of one output may take, in cells of the table of two
// texts. Behind it, and for a pair that alone would be beyond it, what differs counts as replaced as a whole.
const maxEditCells = 16 << 20

// text compares texts by the number of characters that have to be inserted, deleted or replaced.
func (c *comparison) text() error {
	for _, t := range []*edgewise.Tensor{c.want, c.got} {
		if t.Type != edgewise.Bytes {
			return fmt.Errorf("the rule %q takes texts, got %v", c.rule.Kind, t.Type)
		}
	}
	if err := c.sameShape(); err != nil {
		return err
	}
	next, stop := iter.Pull(elements(c.got))
	defer stop()
	place, cells := int64(0), maxEditCells
	for element := range elements(c.want) {
		found, _ := next()
		at := place
		place++
		want, got := []rune(string(element)), []rune(string(found))
		edits := editDistance(want, got, &cells)
		allowed := max(c.rule.Distance, int(c.rule.Relative*float64(len(want))))
		if edits <= allowed {
			c.same(float64(edits))
			continue
		}
		c.differs(float64(edits), func() admin.ElementDifference {
			return admin.ElementDifference{
				Index: indexOf(c.want.Shape, at), Want: quoted(want), Got: quoted(got),
			}
		})
	}
	return nil
}

func quoted(text []rune) string { return strconv.Quote(string(text[:min(len(text), maxTextBytes)])) }

// editDistance returns the Levenshtein distance of two texts. It takes the cells that it computes from left; where too
// few are left, it returns an upper bound.
func editDistance(a, b []rune, left *int) int {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 0 || len(b) == 0 || len(a) > *left/len(b) {
		return max(len(a), len(b))
	}
	*left -= len(a) * len(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, y := range b {
			replaced := diagonal
			if x != y {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
