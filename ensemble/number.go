package ensemble

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/edgewise-ai/edgewise"
)

// number returns the first element of data, of any type but Bytes. Integers above 2^53 are rounded.
func number(t edgewise.DataType, data []byte) float64 {
	le := binary.LittleEndian
	switch t {
	case edgewise.Bool, edgewise.Uint8:
		return float64(data[0])
	case edgewise.Int8:
		return float64(int8(data[0]))
	case edgewise.Uint16:
		return float64(le.Uint16(data))
	case edgewise.Int16:
		return float64(int16(le.Uint16(data)))
	case edgewise.Uint32:
		return float64(le.Uint32(data))
	case edgewise.Int32:
		return float64(int32(le.Uint32(data)))
	case edgewise.Uint64:
		return float64(le.Uint64(data))
	case edgewise.Int64:
		return float64(int64(le.Uint64(data)))
	case edgewise.FP32:
		return float64(math.Float32frombits(le.Uint32(data)))
	case edgewise.FP64:
		return math.Float64frombits(le.Uint64(data))
	case edgewise.BF16:
		return float64(math.Float32frombits(uint32(le.Uint16(data)) << 16))
	}
	return half(le.Uint16(data))
}

// half returns the value of a 16-bit floating-point number.
func half(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10&0x1f), float64(bits&0x3ff)
	if bits>>15 == 1 {
		sign = -1
	}
	switch {
	case exponent == 0x1f && fraction != 0:
		return math.NaN()
	case exponent == 0x1f:
		return sign * math.Inf(1)
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// element returns x as an element of type t, which is not Bytes. ok is false when t cannot hold exactly x; for FP32 the
// nearest number will do.
func element(t edgewise.DataType, x float64) (data []byte, ok bool) {
	le := binary.LittleEndian
	size := int(t.Size())
	switch t {
	case edgewise.FP64:
		return le.AppendUint64(nil, math.Float64bits(x)), true
	case edgewise.FP32:
		return le.AppendUint32(nil, math.Float32bits(float32(x))), !math.IsInf(float64(float32(x)), 0) || math.IsInf(x, 0)
	case edgewise.FP16, edgewise.BF16:
		data = short(t, x)
	case edgewise.Uint64:
		if x < 0 || x >= 1<<64 {
			return nil, false
		}
		data = le.AppendUint64(nil, uint64(x))
	default:
		if !(x >= -1<<63 && x < 1<<63) || t == edgewise.Bool && x != 0 && x != 1 {
			return nil, false
		}
		data = le.AppendUint64(nil, uint64(int64(x)))[:size]
	}
	return data, number(t, data) == x
}

// short returns the smallest number of a two-byte floating-point type that is not nearer to zero than x. Without their
// sign such numbers have the order of their bits.
func short(t edgewise.DataType, x float64) []byte {
	at := func(bits int) float64 { return number(t, binary.LittleEndian.AppendUint16(nil, uint16(bits))) }
	bits := uint16(sort.Search(0x7fff, func(bits int) bool { return !(at(bits) < math.Abs(x)) }))
	if math.Signbit(x) {
		bits |= 0x8000
	}
	return binary.LittleEndian.AppendUint16(nil, bits)
}

// filled makes a default output of type t.
func filled(name string, t edgewise.DataType, d edgewise.EnsembleDefault) (edgewise.Tensor, error) {
	out := edgewise.Tensor{Name: name, Type: t, Shape: d.Dims}
	n, ok := d.Dims.Elements()
	var one []byte
	if t == edgewise.Bytes {
		one = edgewise.AppendElement(nil, d.Text)
	} else {
		var exact bool
		if one, exact = element(t, d.Value); !exact {
			return out, fmt.Errorf("value %v is no %v", d.Value, t)
		}
	}
	if !ok || n > MaxDefaultBytes/int64(len(one)) {
		return out, fmt.Errorf("dims %v have a negative size or take more than %d bytes", d.Dims, MaxDefaultBytes)
	}
	out.Data = make([]byte, 0, n*int64(len(one)))
	for range n {
		out.Data = append(out.Data, one...)
	}
	return out, nil
}
