package observe

import (
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// elements writes the elements of a tensor, separated by commas: numbers as such, text as JSON strings, and the short
// floats, FP16 and BF16, as their bits.
func elements(t edgewise.Tensor) string {
	var out []byte
	if t.Type == edgewise.Bytes {
		for element := range edgewise.Elements(t.Data) {
			out = append(strconv.AppendQuote(out, string(element)), ',')
		}
		return string(out[:max(len(out)-1, 0)])
	}
	size := int(t.Type.Size())
	if size == 0 {
		return ""
	}
	for rest := t.Data; len(rest) >= size; rest = rest[size:] {
		out = append(appendNumber(out, t.Type, rest[:size]), ',')
	}
	return string(out[:max(len(out)-1, 0)])
}

func appendNumber(out []byte, typ edgewise.DataType, data []byte) []byte {
	switch {
	case typ == edgewise.FP32:
		return strconv.AppendFloat(out, scalar.Float(typ, data), 'g', -1, 32)
	case typ == edgewise.FP64:
		return strconv.AppendFloat(out, scalar.Float(typ, data), 'g', -1, 64)
	case typ.IsFloat():
		return strconv.AppendUint(append(out, "0x"...), scalar.Bits(typ, data), 16)
	}
	return scalar.AppendInteger(out, typ, data)
}
