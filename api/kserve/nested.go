package kserve

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// Nested reads a body whose tensors are arrays in arrays, without their types and shapes, as other protocols have them.
// It is valid in Decoder.Nested.
type Nested struct {
	c *tensors
	r *InferRequest
}

// Nested makes a request to id of a JSON body of another protocol: read reads it. It is strict and bounded as Infer is.
// Errors: Invalid and TooLarge, and those of read.
func (d *Decoder) Nested(id edgewise.ModelID, body []byte, read func(*Nested) error) (*InferRequest, error) {
	if int64(len(body)) > d.lim.MaxJSON {
		return nil, edgewise.About(id, tooLarge(d.lim.MaxJSON, "the JSON of a request has %d bytes: at most %d are allowed "+
			"(http.max_json_bytes)", len(body), d.lim.MaxJSON))
	}
	r := d.request(id)
	n := &Nested{r: r, c: &tensors{
		cursor: cursor{b: body, maxDepth: d.lim.MaxDepth, key: r.scratch}, lim: d.lim, what: "input",
		memory: &r.memory, intern: r,
	}}
	err := read(n)
	if err == nil {
		err = n.c.document()
	}
	r.scratch = n.c.key
	if err != nil {
		r.Release()
		return nil, edgewise.About(id, err)
	}
	return r, nil
}

// Next skips white space and returns the first byte of the next value: '{', '[', '"' and others; 0 at the end.
func (n *Nested) Next() byte { return n.c.next() }

// Object reads an object and calls visit with the name of each member, which it reads. name is valid until visit
// returns or reads a name itself.
func (n *Nested) Object(visit func(name []byte) error) error {
	if n.c.next() != '{' {
		if n.c.p >= len(n.c.b) {
			return n.c.bad(badEmpty)
		}
		return invalid("the body is %s, want an object", n.c.root())
	}
	return n.c.object(visit)
}

// Array reads an array and calls visit before each element, which it reads.
func (n *Nested) Array(visit func() error) error { return n.c.array(visit) }

// Skip reads any value and discards it.
func (n *Nested) Skip() error { return n.c.skip(wordsAllowed) }

// Text reads a string that is the value of a member.
func (n *Nested) Text(member string) (string, error) {
	text, err := n.c.string(member, n.c.lim.MaxName)
	return string(text), err
}

// Found names the kind of the next value, for messages.
func (n *Nested) Found() string { return n.c.found() }

// Single tells whether the next value is an object whose only member is called name, without reading it.
func (n *Nested) Single(name string) bool {
	c := cursor{b: n.c.b, p: n.c.p, maxDepth: n.c.maxDepth}
	if c.next() != '{' {
		return false
	}
	c.p++
	if c.next() != '"' {
		return false
	}
	text, _, err := c.text()
	if err != nil || string(text) != name || c.next() != ':' {
		return false
	}
	c.p++
	return c.skip(wordsAllowed) == nil && c.next() == '}'
}

// First returns a reader of the first element of the array that comes next, to look at it alone.
func (n *Nested) First() *Nested {
	c := &tensors{cursor: cursor{b: n.c.b, p: n.c.p, maxDepth: n.c.maxDepth}, lim: n.c.lim}
	if c.next() == '[' {
		c.p++
	}
	return &Nested{c: c}
}

// Values are the elements of one input: found in the text first, which tells their number, and read then.
type Values struct {
	spec  edgewise.Spec
	shape edgewise.Shape // of each value
	known bool           // the number of dimensions
	at    []int          // where each value begins
	text  int64          // bytes of all
	index [edgewise.MaxRank]int64
}

// Of begins the values of an input.
func Of(spec edgewise.Spec) *Values { return &Values{spec: spec} }

// Rows returns how many values were found.
func (v *Values) Rows() int { return len(v.at) }

// Spec returns the input.
func (v *Values) Spec() edgewise.Spec { return v.spec }

// Shape returns the shape that all values have.
func (v *Values) Shape() edgewise.Shape { return v.shape }

// placeSize is the bytes of memory that the place of a value takes.
const placeSize = 8

// Repeat takes the one value that was found count times. Error: TooLarge.
func (n *Nested) Repeat(v *Values, count int) error {
	if n.c.sum += placeSize * int64(count); n.c.sum > n.c.lim.MaxDecoded {
		return n.tooMuch(v)
	}
	v.text *= int64(count)
	v.at = slices.Repeat(v.at, count)
	return nil
}

// Find passes the next value, which is one of v: a scalar, or arrays in arrays that are as long as each other, and as
// those of the values before. where names it in messages, as in "instances[3]". Errors: Invalid, TooLarge.
func (n *Nested) Find(v *Values, where func() string) error {
	if n.c.sum += placeSize; n.c.sum > n.c.lim.MaxDecoded {
		return n.tooMuch(v)
	}
	n.c.next()
	start := n.c.p
	v.at = append(v.at, start)
	err := n.measure(v, 0, where)
	v.text += int64(n.c.p - start)
	return err
}

// measure passes a value at a level of nesting.
func (n *Nested) measure(v *Values, level int, where func() string) error {
	if n.c.next() != '[' {
		if level != len(v.shape) && (v.known || level < len(v.shape)) {
			return v.ragged(level, where, "%s, where the ones before are arrays", n.c.found())
		}
		v.known = true
		return n.c.skip(wordsAllowed)
	}
	switch {
	case level < len(v.shape):
	case v.known:
		return v.ragged(level, where, "an array, where the ones before are single values")
	case level == edgewise.MaxRank:
		return v.ragged(level, where, "nested in more than %d arrays", edgewise.MaxRank)
	default:
		v.shape = append(v.shape, -1)
	}
	length := int64(0)
	err := n.c.array(func() error {
		v.index[level] = length
		if count := n.numbers(v, level+1); count > 0 {
			length += count
			return nil
		}
		length++
		return n.measure(v, level+1, where)
	})
	switch {
	case err != nil:
		return err
	case v.shape[level] < 0:
		v.shape[level], v.known = length, v.known || length == 0
	case v.shape[level] != length:
		return v.ragged(level, where, "an array of %d, where the ones before have %d", length, v.shape[level])
	}
	return nil
}

// numbers passes the numbers at the cursor, up to the comma before anything else, and returns how many there are. 0
// leaves the value at the cursor to measure.
func (n *Nested) numbers(v *Values, level int) (count int64) {
	if n.c.next(); level != len(v.shape) {
		return 0
	}
	b, p := n.c.b, n.c.p
	for p < len(b) && (isDigit(b[p]) || b[p] == '-') {
		_, _, end, form := scanDecimal(b, p)
		if form&malformed != 0 {
			break
		}
		count++
		v.known, n.c.p = true, end
		if p = end + 1; p < len(b) && b[end] == ',' && b[p] == ' ' {
			p++
		}
		if end >= len(b) || b[end] != ',' {
			break
		}
	}
	return count
}

// ragged is the error about a value at a level of nesting.
func (v *Values) ragged(level int, where func() string, format string, args ...any) error {
	var at strings.Builder
	at.WriteString(where())
	for _, i := range v.index[:level] {
		fmt.Fprintf(&at, "[%d]", i)
	}
	return TensorErrorf(v.spec.Name, "%s is "+format, append([]any{at.String()}, args...)...)
}

func (n *Nested) tooMuch(v *Values) error {
	return tooLarge(n.c.lim.MaxDecoded, "input '%s' has too many elements: the tensors of a request sent as JSON may take "+
		"%d bytes", v.spec.Name, n.c.lim.MaxDecoded)
}

// Read adds the values as an input of a shape that takes as many elements as they have together. Strings may be objects
// with nothing but the member "b64". Errors: Invalid for an element that is not of the input's type, TooLarge.
func (n *Nested) Read(v *Values, shape edgewise.Shape) error {
	each, _ := v.shape.Elements()
	total := each * int64(len(v.at)) // no more than the text has bytes
	size := total * v.spec.Type.Size()
	if v.spec.Type == edgewise.Bytes {
		size = 4*total + v.text
	}
	if n.c.sum += size; n.c.sum > n.c.lim.MaxDecoded {
		return n.tooMuch(v)
	}
	e := elements{
		cursor: &n.c.cursor, what: "input", name: v.spec.Name, typ: v.spec.Type, objects: true,
		dst: n.r.memory.alloc(int(size)), room: total,
	}
	p, depth := n.c.p, n.c.depth
	for _, at := range v.at {
		n.c.p, n.c.depth = at, 0
		if err := e.value(); err != nil {
			return err
		}
	}
	n.c.p, n.c.depth = p, depth
	data := e.dst
	if v.spec.Type == edgewise.Bytes {
		data = data[:e.used]
	}
	n.r.binary = append(n.r.binary, -1)
	return n.r.AddInput(edgewise.Tensor{Name: v.spec.Name, Type: v.spec.Type, Shape: shape, Data: data}, Place{})
}

// value reads an array, or a single element.
func (e *elements) value() error {
	if e.next() == '[' {
		return e.array()
	}
	if e.typ != edgewise.FP32 {
		err := e.element()
		e.seen++
		return err
	}
	v, err := e.float(32)
	if err == nil {
		e.put(4, uint64(math.Float32bits(float32(v))))
		e.seen++
	}
	return err
}

// encoded reads an element of type Bytes that is an object with its base64.
func (e *elements) encoded() error {
	found := false
	err := e.object(func(name []byte) error {
		if found || string(name) != "b64" || e.next() != '"' {
			return e.fault(`element %d: want a string, or an object with nothing but "b64" and a string`, e.seen)
		}
		found = true
		raw, escaped, err := e.text()
		if err != nil {
			return err
		}
		if escaped {
			e.key = unquote(e.key[:0], raw)
			raw = e.key
		}
		return e.store(raw, false, base64.StdEncoding.WithPadding(padding(raw)))
	})
	if err == nil && !found {
		err = e.fault(`element %d: an object has no "b64"`, e.seen)
	}
	return err
}

// padding returns what base64 is padded with: some programs leave it away.
func padding(text []byte) rune {
	if len(text)%4 != 0 {
		return base64.NoPadding
	}
	return base64.StdPadding
}

// Writer writes the elements of a tensor as arrays in arrays, a part after the other.
type Writer struct {
	tensor *edgewise.Tensor
	rest   []byte
	base64 bool
}

// Write begins to write the elements of t, strings as objects with the member "b64" where encode is set. Errors:
// Internal for a tensor that is not well-formed.
func Write(t *edgewise.Tensor, encode bool) (*Writer, error) {
	if err := t.Check(); err != nil {
		return nil, edgewise.Errorf(opEncode, edgewise.Internal, "%w", err)
	}
	return &Writer{tensor: t, rest: t.Data, base64: encode}, nil
}

// Size estimates the bytes of the text, rather too many than too few.
func (w *Writer) Size() int {
	rows := int64(1)
	if shape := w.tensor.Shape; len(shape) > 0 {
		rows, _ = shape[:len(shape)-1].Elements()
	}
	size := textSize(w.tensor) + 4*int(min(rows, int64(len(w.rest)))) + 64
	if w.tensor.Type == edgewise.Bytes {
		size += size / 2
	}
	return size
}

// Append appends the next elements, as many as shape has, in arrays as shape says. Floats have the shortest form that
// reads back to the same bits, with a point; a string that is not valid UTF-8 is an object with "b64".
func (w *Writer) Append(dst []byte, shape edgewise.Shape) []byte {
	if len(shape) == 0 {
		return w.element(dst)
	}
	dst = append(dst, '[')
	for i := range shape[0] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = w.Append(dst, shape[1:])
	}
	return append(dst, ']')
}

// element appends one element.
func (w *Writer) element(dst []byte) []byte {
	size := int(w.tensor.Type.Size())
	if w.tensor.Type == edgewise.Bytes {
		size = 4 + int(binary.LittleEndian.Uint32(w.rest))
	}
	data := w.rest[:size]
	w.rest = w.rest[size:]
	switch {
	case w.tensor.Type == edgewise.Bytes:
		return appendBytes(dst, data[4:], w.base64)
	case !w.tensor.Type.IsFloat():
		return scalar.AppendInteger(dst, w.tensor.Type, data)
	}
	v := scalar.Float(w.tensor.Type, data)
	bits := 32
	if w.tensor.Type == edgewise.FP64 {
		bits = 64
	}
	dst = appendFloat(dst, v, bits)
	if v == math.Trunc(v) && math.Abs(v) < exponential {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendBytes appends a string.
func appendBytes(dst, text []byte, encode bool) []byte {
	if !encode && utf8.Valid(text) {
		return appendText(dst, text)
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, `{"b64":"`...), text)
	return append(dst, `"}`...)
}

// AppendString appends s as a JSON string, with what is not valid UTF-8 replaced.
func AppendString(dst []byte, s string) []byte { return appendName(dst, s) }
