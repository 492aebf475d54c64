// Package trial makes the tensors of runs that no client asked for: the merge proof, the measurement of whether batches
// pay, the first run of a new version, declared warm-ups, and the states that sequences begin with. It compares outputs.
package trial

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

const (
	stringBytes  = 8     // of a made-up string with its length, at most
	stringValues = 10000 // random strings are decimal numbers below this
)

// Size is the size of a request.
type Size struct {
	Rows  int64 // dimension 0 of a model whose max_batch_size is above 0
	Open  int64 // dimensions of variable size; -1 refuses models that have one
	Bytes int64 // bound of each tensor
}

// Fill returns the data of n elements of type t.
type Fill func(t edgewise.DataType, n int64) ([]byte, error)

// Inputs makes the required inputs of a request to m. The error names the first input that cannot be made.
func Inputs(m *edgewise.Model, size Size, fill Fill) ([]edgewise.Tensor, error) {
	var inputs []edgewise.Tensor
	for _, spec := range m.Inputs() {
		if spec.Optional {
			continue
		}
		shape := slices.Clone(spec.Shape)
		for d := range shape {
			if d == 0 && m.MaxBatchSize > 0 {
				shape[d] = size.Rows
			} else if shape[d] < 0 {
				shape[d] = size.Open
			}
		}
		t, err := Tensor(spec.Name, spec.Type, shape, size.Bytes, fill)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", spec.Name, err)
		}
		inputs = append(inputs, t)
	}
	return inputs, nil
}

// Tensor makes a tensor of at most limit bytes. fill runs only when shape is within the bound.
func Tensor(name string, t edgewise.DataType, shape edgewise.Shape, limit int64, fill Fill) (edgewise.Tensor, error) {
	size := t.Size()
	if t == edgewise.Bytes {
		size = stringBytes
	}
	n, ok := shape.Elements()
	if !ok || n > limit/max(size, 1) {
		return edgewise.Tensor{}, fmt.Errorf("shape %v has a negative size or takes more than %d bytes", shape, limit)
	}
	data, err := fill(t, n)
	return edgewise.Tensor{Name: name, Type: t, Shape: shape, Data: data}, err
}

// Zeros fills with zeros, or empty strings.
func Zeros(t edgewise.DataType, n int64) ([]byte, error) {
	size := t.Size()
	if t == edgewise.Bytes {
		size = 4 // the length of an empty string
	}
	return make([]byte, n*size), nil
}

// Same fills with one number; integers are 1 whatever the number is. It refuses strings.
func Same(number float64) Fill {
	return func(t edgewise.DataType, n int64) ([]byte, error) {
		var one []byte
		switch {
		case t == edgewise.Bytes:
			return nil, errors.New("text and files cannot be made up")
		case t.IsFloat():
			one = scalar.AppendFloat(nil, t, number)
		default:
			one = append([]byte{1}, make([]byte, t.Size()-1)...)
		}
		return bytes.Repeat(one, int(n)), nil
	}
}

// Range bounds random numbers.
type Range struct {
	Low, High float64 // of floating-point numbers
	Integers  int64   // integers are from 0 to this, without it
}

// Random fills with random elements. Strings are decimal integers.
func Random(random *rand.Rand, within Range) Fill {
	return func(t edgewise.DataType, n int64) ([]byte, error) {
		data := make([]byte, 0, n*max(t.Size(), 1))
		for range n {
			switch {
			case t == edgewise.Bytes:
				number := random.Int64N(min(within.Integers, stringValues))
				data = edgewise.AppendElement(data, strconv.FormatInt(number, 10))
			case t.IsFloat():
				data = scalar.AppendFloat(data, t, within.Low+(within.High-within.Low)*random.Float64())
			case t == edgewise.Bool:
				data = append(data, byte(random.IntN(2)))
			default:
				v := uint64(random.Int64N(within.Integers))
				for range t.Size() {
					data, v = append(data, byte(v)), v>>8
				}
			}
		}
		return data, nil
	}
}
