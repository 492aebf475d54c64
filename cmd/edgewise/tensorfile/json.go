package tensorfile

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// decodeJSON reads nested arrays, or one flat array, of numbers, booleans or strings.
func decodeJSON(data []byte, spec edgewise.Spec, _ Options) (edgewise.Tensor, error) {
	array := &jsonArray{t: spec.Type, leaves: -1}
	array.tokens = json.NewDecoder(bytes.NewReader(data))
	array.tokens.UseNumber()
	token, err := array.tokens.Token()
	if err == nil {
		err = array.value(token, 0)
	}
	if err != nil {
		return edgewise.Tensor{}, invalid("at byte %d: %w", array.tokens.InputOffset(), err)
	}
	if _, err := array.tokens.Token(); err != io.EOF {
		return edgewise.Tensor{}, invalid("at byte %d: text follows the array", array.tokens.InputOffset())
	}
	shape, err := array.fitted(spec.Shape)
	return edgewise.Tensor{Shape: shape, Data: array.data}, err
}

// jsonArray collects the elements of nested arrays and checks that all arrays of one depth are equally long.
type jsonArray struct {
	tokens *json.Decoder
	t      edgewise.DataType
	shape  edgewise.Shape // -1 until the first array of that depth has ended
	leaves int            // the depth of the elements, -1 before the first one
	count  int64
	data   []byte
}

// fitted returns the shape by nesting when spec accepts it, with a batch dimension of one where only that is missing,
// and else the shape of spec if the array is flat.
func (a *jsonArray) fitted(want edgewise.Shape) (edgewise.Shape, error) {
	if want.Accepts(a.shape) {
		return a.shape, nil
	}
	if batched := append(edgewise.Shape{1}, a.shape...); want.Accepts(batched) {
		return batched, nil
	}
	if len(a.shape) > 1 {
		return nil, invalid("the nesting of the arrays makes the shape %v", a.shape)
	}
	return fit(want, a.count)
}

func (a *jsonArray) value(token json.Token, depth int) error {
	if delim, ok := token.(json.Delim); ok {
		if delim != '[' {
			return invalid("found %v: want arrays of %v", delim, a.t)
		}
		return a.array(depth)
	}
	if a.leaves < 0 && depth == len(a.shape) {
		a.leaves = depth
	}
	if depth != a.leaves {
		return invalid("an element stands beside an array")
	}
	a.count++
	return a.element(token)
}

func (a *jsonArray) array(depth int) error {
	if depth >= edgewise.MaxRank {
		return invalid("arrays are nested deeper than %d", edgewise.MaxRank)
	}
	if depth == a.leaves {
		return invalid("an array stands beside an element")
	}
	if depth == len(a.shape) {
		if a.leaves >= 0 {
			return invalid("an array stands beside an element")
		}
		a.shape = append(a.shape, -1)
	}
	n := int64(0)
	for ; ; n++ {
		token, err := a.tokens.Token()
		if err != nil {
			return err
		}
		if token == json.Delim(']') {
			break
		}
		if err := a.value(token, depth+1); err != nil {
			return err
		}
	}
	if a.shape[depth] >= 0 && a.shape[depth] != n {
		return invalid("an array has %d elements where the ones before have %d", n, a.shape[depth])
	}
	a.shape[depth] = n
	return nil
}

func (a *jsonArray) element(token json.Token) error {
	switch v := token.(type) {
	case bool:
		if a.t == edgewise.Bool {
			a.data = append(a.data, flag(v))
			return nil
		}
	case string:
		if a.t == edgewise.Bytes {
			a.data = edgewise.AppendElement(a.data, v)
			return nil
		}
	case json.Number:
		if a.t != edgewise.Bool && a.t != edgewise.Bytes {
			return a.number(string(v))
		}
	}
	return invalid("element %v: want %v", token, a.t)
}

func (a *jsonArray) number(text string) error {
	if a.t.IsFloat() {
		value, err := strconv.ParseFloat(text, 64)
		element := scalar.AppendFloat(nil, a.t, value)
		if err != nil || math.IsInf(scalar.Float(a.t, element), 0) {
			return invalid("number %.40s does not fit in %v", text, a.t)
		}
		a.data = append(a.data, element...)
		return nil
	}
	bits, ok := scalar.ParseInteger(a.t, text)
	if !ok {
		return invalid("number %.40s is not an integer that fits in %v", text, a.t)
	}
	a.data = scalar.AppendBits(a.data, a.t, bits)
	return nil
}

func flag(v bool) byte {
	if v {
		return 1
	}
	return 0
}
