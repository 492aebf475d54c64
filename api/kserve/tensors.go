package kserve

import (
	"math"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// interner makes strings out of names.
type interner interface {
	intern(name []byte) string
}

// tensors reads a list of tensors: the inputs of a request, or the outputs of a response.
type tensors struct {
	cursor
	lim    Limits
	what   string // "input" or "output", for messages
	memory *arena
	intern interner
	count  int // tensors met, inputs and outputs together
	sum    int64

	into   *Inference // its Inputs are the tensors
	binary []int64    // for each of them: its bytes after the JSON part, -1 when it is not there
	dims   []int64
}

// tensor is one of them while it is read. Its members come in any order, so "data" that comes too early is only found
// and read at the end.
type tensor struct {
	edgewise.Tensor
	seen   members
	dataAt int // where "data" begins when it was put off
	binary int64
	shared Place

	base64 bool // whether the strings of "data" are base64 of the elements
}

// list reads the array at the cursor.
func (c *tensors) list(member string) error {
	if c.next() != '[' {
		return invalid("Unable to parse '%s': want an array, got %s", member, c.found())
	}
	return c.array(func() error {
		if c.count++; c.count > c.lim.MaxTensors {
			return tooLarge(c.lim.MaxTensors, "the request has more than %d inputs and outputs", c.lim.MaxTensors)
		}
		if c.next() != '{' {
			return invalid("Unable to parse '%s': %s %d is %s, want an object", member, c.what, len(c.into.Inputs), c.found())
		}
		return c.one()
	})
}

func (c *tensors) one() error {
	t := tensor{binary: -1, dataAt: -1}
	if err := c.object(func(name []byte) error { return c.member(&t, name) }); err != nil {
		return err
	}
	if err := c.finish(&t); err != nil {
		return err
	}
	c.binary = append(c.binary, t.binary)
	return c.into.add(c.what, t.Tensor, t.shared)
}

func (c *tensors) member(t *tensor, name []byte) error {
	switch string(name) {
	case "name":
		if err := t.seen.once(hasName, "name"); err != nil {
			return err
		}
		text, err := c.string("name", c.lim.MaxName)
		if err == nil {
			t.Name = c.intern.intern(text)
		}
		return err
	case "datatype":
		if err := t.seen.once(hasDatatype, "datatype"); err != nil {
			return err
		}
		return c.datatype(t)
	case "shape":
		if err := t.seen.once(hasShape, "shape"); err != nil {
			return err
		}
		return c.shape(t)
	case "data":
		if err := t.seen.once(hasData, "data"); err != nil {
			return err
		}
		return c.data(t)
	case "parameters":
		if err := t.seen.once(hasParameters, "parameters"); err != nil {
			return err
		}
		return c.parameters(t)
	}
	return c.skip(wordsRefused)
}

func (c *tensors) datatype(t *tensor) error {
	text, err := c.string("datatype", c.lim.MaxName)
	if err != nil {
		return err
	}
	var ok bool
	if t.Type, ok = edgewise.ParseDataType(string(text)); !ok {
		return TensorErrorf(t.Name, "Unable to parse 'datatype': %s is no datatype: want one of %s", short(text),
			Datatypes())
	}
	return nil
}

func (c *tensors) shape(t *tensor) error {
	if c.next() != '[' {
		return TensorErrorf(t.Name, "Unable to parse 'shape': want an array, got %s", c.found())
	}
	start := len(c.dims)
	err := c.array(func() error {
		if len(c.dims)-start >= edgewise.MaxRank {
			return TensorErrorf(t.Name, "Unable to parse 'shape': more than %d dimensions", edgewise.MaxRank)
		}
		c.next()
		at := c.p
		d, ok := c.unsigned()
		if !ok || d > math.MaxInt64 {
			c.p = at
			return TensorErrorf(t.Name, "Unable to parse 'shape': dimension %d is not an integer from 0 to %d",
				len(c.dims)-start, int64(math.MaxInt64))
		}
		c.dims = append(c.dims, int64(d))
		return nil
	})
	t.Shape = c.dims[start:len(c.dims):len(c.dims)]
	return err
}

// parameters reads the parameters of a tensor. Those that say nothing about its bytes are ignored.
func (c *tensors) parameters(t *tensor) error {
	if c.next() != '{' {
		return TensorErrorf(t.Name, "Unable to parse 'parameters': want an object, got %s", c.found())
	}
	return c.object(func(name []byte) error {
		switch string(name) {
		case "binary_data_size":
			if err := t.seen.once(hasBinary, "binary_data_size"); err != nil {
				return err
			}
			size, err := c.cursor.count("binary_data_size")
			t.binary = int64(min(size, math.MaxInt64))
			return err
		case "content_type":
			if c.next() == '"' {
				text, err := c.name()
				t.base64 = string(text) == "base64"
				return err
			}
		}
		if known, err := t.shared.parameter(c, &t.seen, name); known {
			return err
		}
		return c.skip(wordsRefused)
	})
}

// data reads "data" if everything is known that it depends on, and otherwise remembers where it is.
func (c *tensors) data(t *tensor) error {
	const needed = hasName | hasShape | hasDatatype
	if c.next() != '[' {
		return TensorErrorf(t.Name, "Unable to parse 'data': want an array, got %s", c.found())
	}
	if t.seen&needed != needed || t.Type == edgewise.Bytes {
		t.dataAt = c.p
		return c.skip(wordsAllowed)
	}
	return c.fill(t, len(c.b))
}

// finish checks what was read of a tensor and reads "data" if that was put off. The cursor stands after the tensor.
func (c *tensors) finish(t *tensor) error {
	for _, m := range [...]struct {
		bit  members
		name string
	}{{hasName, "name"}, {hasDatatype, "datatype"}, {hasShape, "shape"}} {
		if t.seen&m.bit == 0 {
			return TensorErrorf(t.Name, "Unable to parse '%s': %s %d has none", m.name, c.what, len(c.into.Inputs))
		}
	}
	if t.Name == "" {
		return invalid("Unable to parse 'name': %s %d has none", c.what, len(c.into.Inputs))
	}
	n, err := c.elements(t)
	if err != nil {
		return err
	}
	if err := c.source(t, n); err != nil || t.dataAt < 0 {
		return err
	}
	end, depth := c.p, c.depth
	c.p = t.dataAt
	err = c.fill(t, end)
	if err == nil {
		c.p, c.depth = end, depth
	}
	return err
}

// source checks that the bytes of a tensor of n elements come from exactly one place.
func (c *tensors) source(t *tensor, n int64) error {
	const text = "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', " +
		"'shared_memory_region' in 'parameters'. But"
	switch t.seen & (hasData | hasBinary | hasRegion) {
	case hasData, hasBinary:
		return nil
	case hasRegion:
		return t.shared.check(c.what, t.Name, t.seen)
	case 0:
		if n == 0 {
			return nil
		}
		return TensorErrorf(t.Name, text+" no field is set")
	}
	set := ""
	for _, m := range [...]struct {
		bit  members
		name string
	}{{hasData, " 'data'"}, {hasBinary, " 'binary_data_size'"}, {hasRegion, " 'shared_memory_region'"}} {
		if t.seen&m.bit != 0 {
			set += m.name
		}
	}
	return TensorErrorf(t.Name, text+" set%s", set)
}

// Datatypes returns the names of the data types, for messages.
func Datatypes() string {
	var names []string
	for _, t := range edgewise.DataTypes() {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}

// elements is Elements of a tensor.
func (c *tensors) elements(t *tensor) (int64, error) {
	return Elements(c.what, t.Name, t.Type, t.Shape)
}

// Elements returns the number of elements of a tensor, what ("input", "output"), whose bytes an int64 can count.
// Errors: Invalid for a negative dimension and for more, as a TensorError.
func Elements(what, name string, t edgewise.DataType, shape edgewise.Shape) (int64, error) {
	for _, d := range shape {
		if d < 0 {
			return 0, TensorErrorf(name, "invalid shape for %s '%s': shape %v has a negative dimension", what, name, shape)
		}
	}
	n, ok := shape.Elements()
	if !ok {
		return 0, TensorErrorf(name, "invalid shape for %s '%s': shape %v causes total element count to exceed maximum "+
			"size of %d",
			what, name, shape, int64(math.MaxInt64))
	}
	if size := t.Size(); size > 1 && n > math.MaxInt64/size {
		return 0, TensorErrorf(name, "byte size overflow for %s '%s': element count (%d) * data type size (%d) exceeds "+
			"maximum allowed size (%d)",
			what, name, n, size, int64(math.MaxInt64))
	}
	return n, nil
}

// fill reads the array at the cursor into the memory of the tensor. It ends before end.
//
// Memory is taken only for elements that the text can hold: each takes two bytes of it, with its comma.
func (c *tensors) fill(t *tensor, end int) error {
	n, err := c.elements(t)
	if err != nil {
		return err
	}
	e := elements{cursor: &c.cursor, what: c.what, name: t.Name, typ: t.Type, base64: t.base64}
	if n <= int64(end-c.p)/2 {
		size := n * t.Type.Size()
		if t.Type == edgewise.Bytes {
			size = 4*n + int64(end-c.p)
		}
		if c.sum += size; c.sum > c.lim.MaxDecoded {
			return tooLarge(c.lim.MaxDecoded, "JSON %s '%s' has a byte_size (%d bytes) that exceeds the maximum allowed "+
				"value: the tensors of a request sent as JSON may take %d bytes",
				c.what, t.Name, size, c.lim.MaxDecoded)
		}
		e.dst, e.room = c.memory.alloc(int(size)), n
	}
	if err := e.array(); err != nil {
		return err
	}
	if e.seen != n {
		words := "Unable to parse 'data': Shape does not match true shape of 'data' field"
		if e.seen < n { // Triton has two wordings
			words = "Failed to parse 'data' field: shape does not match true shape"
		}
		return TensorErrorf(e.name, "%s: %s %q: shape %v takes %d elements, data has %d", words, e.what, e.name, t.Shape, n,
			e.seen)
	}
	t.Data = e.dst
	if t.Type == edgewise.Bytes {
		t.Data = e.dst[:e.used]
	}
	return nil
}

// parameter reads one of the parameters that put a tensor into shared memory. known tells whether name is one of them.
func (p *Place) parameter(c *tensors, seen *members, name []byte) (known bool, err error) {
	switch string(name) {
	case "shared_memory_region":
		if err := seen.once(hasRegion, "shared_memory_region"); err != nil {
			return true, err
		}
		text, err := c.string("shared_memory_region", c.lim.MaxName)
		p.Region = string(text)
		return true, err
	case "shared_memory_byte_size":
		p.Size, err = c.bytes(seen, hasRegionSize, "shared_memory_byte_size")
	case "shared_memory_offset":
		p.Offset, err = c.bytes(seen, hasRegionOffset, "shared_memory_offset")
	default:
		return false, nil
	}
	return true, err
}

func (c *tensors) bytes(seen *members, bit members, name string) (int64, error) {
	if err := seen.once(bit, name); err != nil {
		return 0, err
	}
	n, err := c.cursor.count(name)
	return int64(min(n, math.MaxInt64)), err
}

// check validates the place of a tensor.
func (p *Place) check(what, name string, seen members) error {
	switch {
	case seen&hasRegion == 0:
		return nil
	case p.Region == "":
		return TensorErrorf(name, "Unable to parse 'shared_memory_region': %s '%s' names none", what, name)
	case seen&hasRegionSize == 0:
		return TensorErrorf(name, "Unable to parse 'shared_memory_byte_size': %s '%s' has none", what, name)
	}
	return nil
}
