package editor

import (
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// summarise describes a tensor of numbers. It returns nil for text, half floats, and a tensor without elements.
func summarise(t *edgewise.Tensor) *admin.TensorSummary {
	size := int(t.Type.Size())
	number := numberOf(t.Type)
	if number == nil || size == 0 || len(t.Data) < size {
		return nil
	}
	s := &admin.TensorSummary{Min: math.Inf(1), Max: math.Inf(-1)}
	finite := int64(0)
	for at := 0; at+size <= len(t.Data); at += size {
		x := number(t.Data[at:])
		if math.IsNaN(x) || math.IsInf(x, 0) {
			s.NotFinite++
			continue
		}
		if x == 0 {
			s.Zeros++
		}
		finite++
		s.Min, s.Max = min(s.Min, x), max(s.Max, x)
		s.Mean += x/float64(finite) - s.Mean/float64(finite) // the difference of two finite numbers may be infinite
	}
	if finite == 0 {
		s.Min, s.Max = 0, 0
	}
	return s
}

// numberOf returns a function that reads an element of a type, nil when Go has no such number.
func numberOf(t edgewise.DataType) func([]byte) float64 {
	le := binary.LittleEndian
	switch t {
	case edgewise.FP32:
		return func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) }
	case edgewise.FP64:
		return func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }
	case edgewise.Int8:
		return func(b []byte) float64 { return float64(int8(b[0])) }
	case edgewise.Uint8, edgewise.Bool:
		return func(b []byte) float64 { return float64(b[0]) }
	case edgewise.Int16:
		return func(b []byte) float64 { return float64(int16(le.Uint16(b))) }
	case edgewise.Uint16:
		return func(b []byte) float64 { return float64(le.Uint16(b)) }
	case edgewise.Int32:
		return func(b []byte) float64 { return float64(int32(le.Uint32(b))) }
	case edgewise.Uint32:
		return func(b []byte) float64 { return float64(le.Uint32(b)) }
	case edgewise.Int64:
		return func(b []byte) float64 { return float64(int64(le.Uint64(b))) }
	case edgewise.Uint64:
		return func(b []byte) float64 { return float64(le.Uint64(b)) }
	}
	return nil
}
