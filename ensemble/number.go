package ensemble

import (
	"fmt"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// element returns x as an element of type t, which is not Bytes. ok is false when t cannot hold exactly x; for FP32 the
// nearest number will do.
func element(t edgewise.DataType, x float64) (data []byte, ok bool) {
	switch {
	case t.IsFloat():
		data = scalar.AppendFloat(nil, t, x)
		if t == edgewise.FP32 && !math.IsInf(scalar.Float(t, data), 0) || t == edgewise.FP64 {
			return data, true
		}
	case t == edgewise.Uint64:
		if x < 0 || x >= 1<<64 {
			return nil, false
		}
		data = scalar.AppendBits(nil, t, uint64(x))
	default:
		if !(x >= -1<<63 && x < 1<<63) || t == edgewise.Bool && x != 0 && x != 1 {
			return nil, false
		}
		data = scalar.AppendBits(nil, t, uint64(int64(x)))
	}
	return data, scalar.Float(t, data) == x
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
