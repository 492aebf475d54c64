package perf

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/scalar"
)

// MaxBatch bounds the batch of one request.
const MaxBatch = 1 << 16

// stringBytes is the length of a random string.
const stringBytes = 16

// Inputs says how the inputs of a model are made. The zero value makes zeros, one element a batch.
type Inputs struct {
	Batch  int                       // size of a leading dimension of any size; 0: 1
	Shapes map[string]edgewise.Shape // by input: the whole shape, the batch included
	Given  []edgewise.Tensor         // inputs that are not made; one of batch 1 is repeated to Batch
	Random bool                      // random values instead of zeros, see Make
	Seed   uint64                    // of the random values
}

// Make returns one tensor for each input in m and the number of elements of the batch, which is 1 unless the first
// dimension of every input is of any size.
//
// A first dimension of any size is taken for the batch. Every other dimension of any size needs a shape. Random floats
// are in 0..1, integers in 0..127, booleans are both, strings are 16 letters and digits.
//
// Errors: Invalid for a name that m does not have, a shape that the input does not take, a dimension nobody gave and a
// bound of MaxBatch; TooLarge for an input over MaxRequestBytes; Unsupported for a type unknown here.
func (in Inputs) Make(m *kserve.ModelMetadata) ([]edgewise.Tensor, int, error) {
	if in.Batch == 0 {
		in.Batch = 1
	}
	if in.Batch < 1 || in.Batch > MaxBatch {
		return nil, 0, invalid("batch %d: want 1 to %d", in.Batch, MaxBatch)
	}
	if err := in.checkNames(m); err != nil {
		return nil, 0, err
	}
	random := rand.New(rand.NewPCG(in.Seed, 0xda7a))
	batch := 0
	var tensors []edgewise.Tensor
	for i := range m.Inputs {
		t, err := in.tensor(&m.Inputs[i], random)
		if err != nil {
			return nil, 0, err
		}
		tensors = append(tensors, t)
		switch n, batched := batchOf(&m.Inputs[i], t); {
		case !batched || (batch > 0 && batch != n):
			batch = 1
		case i == 0:
			batch = n
		}
	}
	return tensors, max(batch, 1), nil
}

func invalid(format string, args ...any) error {
	return edgewise.Errorf("perf.Inputs", edgewise.Invalid, format, args...)
}

// batchOf returns the size of t's batch dimension, if it has one.
func batchOf(m *kserve.TensorMetadata, t edgewise.Tensor) (n int, ok bool) {
	if len(m.Shape) == 0 || m.Shape[0] != -1 {
		return 0, false
	}
	return int(t.Shape[0]), true
}

func (in Inputs) checkNames(m *kserve.ModelMetadata) error {
	known := func(name string) bool {
		return slices.ContainsFunc(m.Inputs, func(t kserve.TensorMetadata) bool { return t.Name == name })
	}
	for name := range in.Shapes {
		if !known(name) {
			return invalid("shape of input %q: model %q has no such input", name, m.Name)
		}
	}
	for i := range in.Given {
		if !known(in.Given[i].Name) {
			return invalid("input %q: model %q has no such input", in.Given[i].Name, m.Name)
		}
	}
	return nil
}

func (in Inputs) tensor(m *kserve.TensorMetadata, random *rand.Rand) (edgewise.Tensor, error) {
	i := slices.IndexFunc(in.Given, func(t edgewise.Tensor) bool { return t.Name == m.Name })
	if i >= 0 {
		return in.repeat(m, in.Given[i])
	}
	t := edgewise.Tensor{Name: m.Name}
	var ok bool
	if t.Type, ok = edgewise.ParseDataType(m.Datatype); !ok {
		return t, edgewise.Errorf("perf.Inputs", edgewise.Unsupported,
			"input %q has type %q, which this program does not know", m.Name, m.Datatype)
	}
	var err error
	if t.Shape, err = in.shape(m); err != nil {
		return t, err
	}
	n, fits := t.Shape.Elements()
	size := max(t.Type.Size(), 4)
	if t.Type == edgewise.Bytes {
		size += stringBytes
	}
	if !fits || n > MaxRequestBytes/size {
		return t, edgewise.Errorf("perf.Inputs", edgewise.TooLarge, "input %q of shape %v has more than %d bytes", m.Name,
			t.Shape, MaxRequestBytes)
	}
	t.Data = in.data(t.Type, n, random)
	return t, nil
}

// shape returns the shape of an input that is made.
func (in Inputs) shape(m *kserve.TensorMetadata) (edgewise.Shape, error) {
	if given, ok := in.Shapes[m.Name]; ok {
		if !m.Shape.Accepts(given) {
			return nil, invalid("shape %v: input %q takes %v", given, m.Name, m.Shape)
		}
		if in.Batch > 1 && (len(given) == 0 || given[0] != int64(in.Batch)) {
			return nil, invalid("shape %v of input %q: its first dimension is not the batch of %d", given, m.Name, in.Batch)
		}
		return given, nil
	}
	shape := slices.Clone(m.Shape)
	for i, d := range shape {
		switch {
		case i == 0 && d == -1:
			shape[0] = int64(in.Batch)
		case i == 0 && in.Batch > 1 && d != int64(in.Batch):
			return nil, invalid("batch %d: the first dimension of input %q is always %d", in.Batch, m.Name, d)
		case d < 0:
			return nil, invalid("input %q takes %v: give its shape, as --shape %s:%s", m.Name, m.Shape, m.Name, exampleOf(m.Shape))
		}
	}
	return shape, nil
}

// exampleOf writes a shape that is accepted by s, as it stands in a flag.
func exampleOf(s edgewise.Shape) string {
	example := slices.Clone(s)
	for i := range example {
		if example[i] < 0 {
			example[i] = 1
		}
	}
	text := example.String()
	return text[1 : len(text)-1]
}

// repeat makes a batch of a given input that is a batch of one.
func (in Inputs) repeat(m *kserve.TensorMetadata, t edgewise.Tensor) (edgewise.Tensor, error) {
	if !m.Shape.Accepts(t.Shape) {
		return t, invalid("input %q: its shape is %v, the model takes %v", t.Name, t.Shape, m.Shape)
	}
	if in.Batch == 1 || (len(t.Shape) > 0 && t.Shape[0] == int64(in.Batch)) {
		return t, nil
	}
	if len(m.Shape) == 0 || m.Shape[0] != -1 || t.Shape[0] != 1 {
		return t, invalid("input %q of shape %v cannot be repeated to a batch of %d", t.Name, t.Shape, in.Batch)
	}
	if len(t.Data) > MaxRequestBytes/in.Batch {
		return t, edgewise.Errorf("perf.Inputs", edgewise.TooLarge, "input %q, %d times, has more than %d bytes", t.Name,
			in.Batch, MaxRequestBytes)
	}
	t.Shape = slices.Clone(t.Shape)
	t.Shape[0] = int64(in.Batch)
	t.Data = slices.Repeat(t.Data, in.Batch)
	return t, nil
}

// data returns n elements.
func (in Inputs) data(kind edgewise.DataType, n int64, random *rand.Rand) []byte {
	if kind == edgewise.Bytes {
		return in.strings(n, random)
	}
	size := kind.Size()
	data := make([]byte, n*size)
	if !in.Random {
		return data
	}
	for e := data; len(e) > 0; e = e[size:] {
		putRandom(e[:size], kind, random)
	}
	return data
}

// putRandom writes one element; its range is told at Make.
func putRandom(e []byte, kind edgewise.DataType, random *rand.Rand) {
	switch {
	case kind.IsFloat():
		scalar.AppendFloat(e[:0], kind, random.Float64())
	case kind == edgewise.Bool:
		e[0] = byte(random.Uint32N(2))
	default:
		e[0] = byte(random.Uint32N(128))
	}
}

// strings returns n empty or random strings, framed.
func (in Inputs) strings(n int64, random *rand.Rand) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	var data []byte
	for range n {
		var element []byte
		for range stringBytes {
			if in.Random {
				element = append(element, letters[random.IntN(len(letters))])
			}
		}
		data = edgewise.AppendElement(data, string(element))
	}
	return data
}

// ParseShape reads NAME:1,3,224,224; the name may contain colons itself, and NAME: stands for a scalar. Errors say what
// is wanted.
func ParseShape(text string) (name string, shape edgewise.Shape, err error) {
	wrong := fmt.Errorf("%q: want NAME:1,3,224,224, at most %d dimensions of 0 or more", text, edgewise.MaxRank)
	i := strings.LastIndexByte(text, ':')
	if i < 1 {
		return "", nil, wrong
	}
	if text[i+1:] == "" {
		return text[:i], edgewise.Shape{}, nil
	}
	for dimension := range strings.SplitSeq(text[i+1:], ",") {
		d, err := strconv.ParseInt(strings.TrimSpace(dimension), 10, 64)
		if err != nil || d < 0 || len(shape) == edgewise.MaxRank {
			return "", nil, wrong
		}
		shape = append(shape, d)
	}
	return text[:i], shape, nil
}
