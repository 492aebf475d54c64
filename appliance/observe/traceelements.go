package observe

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/edgewise-ai/edgewise"
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
	var wide [8]byte
	copy(wide[:], data)
	bits := binary.LittleEndian.Uint64(wide[:])
	switch typ {
	case edgewise.Bool:
		return strconv.AppendBool(out, bits != 0)
	case edgewise.Int8, edgewise.Int16, edgewise.Int32, edgewise.Int64:
		shift := 64 - 8*len(data)
		return strconv.AppendInt(out, int64(bits<<shift)>>shift, 10)
	case edgewise.FP32:
		return strconv.AppendFloat(out, float64(math.Float32frombits(uint32(bits))), 'g', -1, 32)
	case edgewise.FP64:
		return strconv.AppendFloat(out, math.Float64frombits(bits), 'g', -1, 64)
	case edgewise.FP16, edgewise.BF16:
		return strconv.AppendUint(append(out, "0x"...), bits, 16)
	}
	return strconv.AppendUint(out, bits, 10)
}
