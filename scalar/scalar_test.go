package scalar

import (
	"encoding/binary"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
)

// widen returns the value of a binary16, by the definition of the format.
func widen(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10&0x1f), float64(bits&0x3ff)
	if bits&0x8000 != 0 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 0x1f:
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// rounded returns the bits of an element of two bytes for v.
func rounded(t edgewise.DataType, v float64) uint16 {
	return binary.LittleEndian.Uint16(AppendFloat(nil, t, v))
}

func TestHalfIsTheNearestHalfEvenOnATie(t *testing.T) {
	for bits := uint16(0); bits < 0x7c00; bits++ {
		value := widen(bits)
		if got := rounded(edgewise.FP16, value); got != bits {
			t.Fatalf("%v is rounded to %#x, want %#x", value, got, bits)
		}
		if got := Float(edgewise.FP16, binary.LittleEndian.AppendUint16(nil, bits)); got != value {
			t.Fatalf("%#x is read as %v, want %v", bits, got, value)
		}
		next := widen(bits + 1)
		if bits+1 == 0x7c00 {
			next = 65536
		}
		even := bits + bits&1
		if got := rounded(edgewise.FP16, (value+next)/2); got != even {
			t.Fatalf("%v, between %#x and the next, is rounded to %#x, want %#x", (value+next)/2, bits, got, even)
		}
		if got := rounded(edgewise.FP16, -value); got != bits|0x8000 {
			t.Fatalf("%v is rounded to %#x, want %#x", -value, got, bits|0x8000)
		}
	}
	if got := rounded(edgewise.FP16, math.NaN()); got&0x7c00 != 0x7c00 || got&0x3ff == 0 {
		t.Errorf("NaN is rounded to %#x: not a NaN", got)
	}
}

func TestBrainFloatIsTheNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Float32Range(-3.38e38, 3.38e38).Draw(t, "value") // what is beyond becomes infinite
		got := Float(edgewise.BF16, AppendFloat(nil, edgewise.BF16, float64(value)))
		low := math.Float32frombits(math.Float32bits(value) &^ 0xffff)
		high := math.Float32frombits(math.Float32bits(value)&^0xffff + 0x10000)
		to := func(other float32) float64 { return math.Abs(float64(value) - float64(other)) }
		if math.Abs(float64(value)-got) > min(to(low), to(high)) {
			t.Fatalf("%v is rounded to %v, though %v and %v are there", value, got, low, high)
		}
	})
	if got := rounded(edgewise.BF16, math.NaN()); got&0x7f80 != 0x7f80 || got&0x7f == 0 {
		t.Errorf("NaN is rounded to %#x: not a NaN", got)
	}
}

func TestElementsAreReadAsTheirType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int16().Draw(t, "v")
		data := binary.LittleEndian.AppendUint16(nil, uint16(v))
		if got := Float(edgewise.Int16, data); got != float64(v) {
			t.Fatalf("INT16 %d is read as %v", v, got)
		}
		if got := Float(edgewise.Uint16, data); got != float64(uint16(v)) {
			t.Fatalf("UINT16 %d is read as %v", uint16(v), got)
		}
		bits := uint32(uint16(v)) << 16
		if got := Float(edgewise.BF16, data); got != float64(math.Float32frombits(bits)) && !math.IsNaN(got) {
			t.Fatalf("BF16 %#x is read as %v", uint16(v), got)
		}
	})
	for bits, want := range map[uint16]float64{
		0: 0, 1: 0x1p-24, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x7c00: math.Inf(1), 0xfc00: math.Inf(-1),
	} {
		if got := Float(edgewise.FP16, binary.LittleEndian.AppendUint16(nil, bits)); got != want {
			t.Errorf("FP16 %#x is %v: want %v", bits, got, want)
		}
	}
	if v := Float(edgewise.FP16, []byte{0, 0x7e}); !math.IsNaN(v) {
		t.Errorf("FP16 0x7e00 is %v", v)
	}
}

func TestEveryTypeKeepsSmallNumbers(t *testing.T) {
	for _, kind := range edgewise.DataTypes() {
		if kind == edgewise.Bytes {
			continue
		}
		for _, v := range []float64{0, 1} {
			data := AppendBits(nil, kind, uint64(v))
			if kind.IsFloat() {
				data = AppendFloat(nil, kind, v)
			}
			if got := Float(kind, data); int64(len(data)) != kind.Size() || got != v {
				t.Errorf("%v: %v comes back as %v from %x", kind, v, got, data)
			}
		}
	}
	if got := Float(edgewise.FP64, AppendFloat(nil, edgewise.FP64, 0.1)); got != 0.1 {
		t.Errorf("0.1 became %v", got)
	}
}

func TestIntegersAsText(t *testing.T) {
	for _, test := range []struct {
		kind edgewise.DataType
		text string
		ok   bool
	}{
		{edgewise.Int8, "-128", true},
		{edgewise.Int8, "128", false},
		{edgewise.Uint8, "255", true},
		{edgewise.Uint8, "-1", false},
		{edgewise.Int64, "-9223372036854775808", true},
		{edgewise.Uint64, "18446744073709551615", true},
		{edgewise.Uint64, "18446744073709551616", false},
	} {
		bits, ok := ParseInteger(test.kind, test.text)
		if ok != test.ok {
			t.Errorf("%v %s: %v", test.kind, test.text, ok)
			continue
		}
		if got := string(AppendInteger(nil, test.kind, AppendBits(nil, test.kind, bits))); ok && got != test.text {
			t.Errorf("%v %s comes back as %s", test.kind, test.text, got)
		}
	}
}
