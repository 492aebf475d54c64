package kserve

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// scan reads the elements of one tensor, given as the inside of its array.
func scan(d *Decoder, typ edgewise.DataType, n int, elements []byte) ([]byte, error) {
	near, err := scanBefore(d, typ, n, elements, "]}]}")
	far, farErr := scanBefore(d, typ, n, elements, `],"more":"so that the text does not end soon"}]}`)
	if (err == nil) != (farErr == nil) || !bytes.Equal(near, far) {
		return nil, fmt.Errorf("%s is %x, %v near the end of the text, and %x, %v elsewhere", elements, near, err, far,
			farErr)
	}
	return near, err
}

// scanBefore decodes n elements that tail comes after.
func scanBefore(d *Decoder, typ edgewise.DataType, n int, elements []byte, tail string) ([]byte, error) {
	body := fmt.Appendf(nil, `{"inputs":[{"name":"x","shape":[%d],"datatype":"%v","data":[`, n, typ)
	body = append(append(body, elements...), tail...)
	r, err := d.Infer(edgewise.ModelID{Name: "m"}, body, -1)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	return append([]byte(nil), r.Inputs[0].Data...), nil
}

// spell appends v in one of many spellings, most of which do not read back to v but to something near it.
func spell(dst []byte, rng *rand.Rand, v float64, bitSize int) []byte {
	switch rng.IntN(8) {
	case 0:
		return strconv.AppendFloat(dst, v, 'e', -1, bitSize)
	case 1:
		if math.Abs(v) < 1e30 {
			return strconv.AppendFloat(dst, v, 'f', -1, bitSize)
		}
		return strconv.AppendFloat(dst, v, 'E', 17, 64)
	case 2:
		return strconv.AppendFloat(dst, v, 'e', -1, 64)
	case 3:
		return strconv.AppendFloat(dst, v, 'e', rng.IntN(30), 64)
	case 4: // near the middle between two neighbours, and exactly there
		up := float64(math.Nextafter32(float32(v), math.MaxFloat32))
		return strconv.AppendFloat(dst, (float64(float32(v))+up)/2, 'e', 15+rng.IntN(60), 64)
	case 5: // digits with the point anywhere
		digits := strconv.FormatUint(rng.Uint64(), 10)
		at := 1 + rng.IntN(len(digits))
		dst = append(append(dst, digits[:at]...), '.')
		return fmt.Appendf(dst, "%s0e%d", digits[at:], rng.IntN(60)-30)
	case 6:
		return fmt.Appendf(dst, "-0.%s%d", strings.Repeat("0", rng.IntN(40)), rng.Uint64())
	}
	return strconv.AppendInt(dst, rng.Int64()>>rng.IntN(63), 10)
}

// randomFloat returns any finite float32 as often as any other, or a usual one.
func randomFloat(rng *rand.Rand) float64 {
	for {
		v := float64(math.Float32frombits(rng.Uint32()))
		if rng.IntN(2) == 0 {
			v = rng.NormFloat64() * math.Pow(10, float64(rng.IntN(12)-6))
		}
		if !math.IsNaN(v) && math.Abs(v) < math.MaxFloat32/2 {
			return v
		}
	}
}

func TestFloatsHaveTheBitsThatStrconvGives(t *testing.T) {
	const batches, perBatch = 150, 1000 // of each type
	rng := rand.New(rand.NewPCG(7, 8))
	d := NewDecoder(Limits{})
	for _, bitSize := range []int{32, 64} {
		typ := map[int]edgewise.DataType{32: edgewise.FP32, 64: edgewise.FP64}[bitSize]
		for range batches {
			var text []byte
			want := make([]byte, 0, perBatch*bitSize/8)
			for i := range perBatch {
				if i > 0 {
					text = append(text, ',')
				}
				start := len(text)
				for {
					text = spell(text[:start], rng, randomFloat(rng), bitSize)
					v, err := strconv.ParseFloat(string(text[start:]), bitSize)
					if err != nil {
						continue // out of range
					}
					want = appendBits(want, v, bitSize)
					break
				}
			}
			got, err := scan(d, typ, perBatch, text)
			if err != nil {
				t.Fatal(err)
			}
			if size := bitSize / 8; string(got) != string(want) {
				for i, s := range strings.Split(string(text), ",") {
					if g, w := got[i*size:(i+1)*size], want[i*size:(i+1)*size]; string(g) != string(w) {
						t.Fatalf("%s as %v: got %x, strconv gives %x", s, typ, g, w)
					}
				}
			}
		}
	}
}

func appendBits(dst []byte, v float64, bitSize int) []byte {
	if bitSize == 32 {
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

func TestHardFloats(t *testing.T) {
	texts := []string{
		"0", "-0", "0.0", "-0.0e-9999999999", "0e99999999999999999999", "1e-46", "7.006492321624085e-46",
		"7.0064923216240853e-46", "7.0064923216240854e-46",
		"1.1754943508222875e-38", "1.17549435e-38", "1.1754942807573642918e-38", "3.4028234663852886e38",
		"3.4028235677973366163e38", "16777216", "16777217", "16777219",
		"16777217.000000000000000000000000000000001", "16777216.999999999999999999999999999", "9007199254740993",
		"9007199254740993.0000000000000000000000000001",
		"0.1", "0.30000001192092896", "0.000000000000000000000000000000000000000000000000000000000000000000000000000001e78",
		"1" + strings.Repeat("0", 400) + "e-400", "0." + strings.Repeat("0", 400) + "1e401", strings.Repeat("9", 400) +
			"e-380", "2.2250738585072011e-308", "4.9e-324", "2.4e-324",
		"1.00000005960464477539062500", "1.00000005960464477539062501", "1.00000017881393432617187500", "12345678",
		"1234567890123456789", "12345678901234567890",
	}
	d := NewDecoder(Limits{})
	for _, text := range texts {
		for _, bitSize := range []int{32, 64} {
			typ := map[int]edgewise.DataType{32: edgewise.FP32, 64: edgewise.FP64}[bitSize]
			v, err := strconv.ParseFloat(text, bitSize)
			if err != nil {
				t.Fatal(err)
			}
			got, err := scan(d, typ, 1, []byte(text))
			if want := appendBits(nil, v, bitSize); err != nil || string(got) != string(want) {
				t.Errorf("%.60s as %v: got %x, %v; strconv gives %x", text, typ, got, err, want)
			}
		}
	}
}

// decimal returns the size of a number, exactly enough.
func decimal(text string) *big.Float {
	v, ok := new(big.Float).SetPrec(2000).SetString(strings.TrimPrefix(text, "-"))
	if !ok {
		panic("BUG: " + text)
	}
	return v
}

// valueOf returns the value of an element of two bytes.
func valueOf(typ edgewise.DataType, bits uint16) float64 {
	return scalar.Float(typ, binary.LittleEndian.AppendUint16(nil, bits))
}

// infinity returns the bits of a type of two bytes for infinity; those of finite numbers without a sign are smaller.
func infinity(typ edgewise.DataType) uint16 {
	return binary.LittleEndian.Uint16(scalar.AppendFloat(nil, typ, math.Inf(1)))
}

// nearest finds the bits of the value of typ nearest to text by trying all of them, with exact arithmetic.
func nearest(typ edgewise.DataType, text string) uint16 {
	want := decimal(text)
	low, high := uint16(0), infinity(typ)-1 // the largest finite value
	for low < high {                        // the highest value not above want
		middle := low + (high-low+1)/2
		if big.NewFloat(valueOf(typ, middle)).Cmp(want) > 0 {
			high = middle - 1
		} else {
			low = middle
		}
	}
	below := new(big.Float).SetPrec(2000).Sub(want, big.NewFloat(valueOf(typ, low)))
	above := new(big.Float).SetPrec(2000).Sub(big.NewFloat(valueOf(typ, low+1)), want)
	if c := below.Cmp(above); c > 0 || c == 0 && low%2 == 1 {
		low++
	}
	if text[0] == '-' {
		low |= 1 << 15
	}
	return low
}

// overflow returns the least value that does not fit typ: half a step above the largest one.
func overflow(typ edgewise.DataType) float64 {
	largest := infinity(typ) - 1
	return valueOf(typ, largest) + (valueOf(typ, largest)-valueOf(typ, largest-1))/2
}

func TestHalvesAreRoundedToTheNearestEven(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	d := NewDecoder(Limits{})
	for _, typ := range []edgewise.DataType{edgewise.FP16, edgewise.BF16} {
		for range 5_000 {
			bits := uint16(rng.UintN(uint(infinity(typ))))
			v := overflow(typ)
			if bits+1 < infinity(typ) {
				v = (valueOf(typ, bits) + valueOf(typ, bits+1)) / 2 // a middle
			}
			text := strconv.FormatFloat(v, 'e', 150, 64)
			mantissa, exponent, _ := strings.Cut(text, "e")
			switch rng.IntN(5) {
			case 0: // a trace above
				text = mantissa + "0001e" + exponent
			case 1: // a trace below: the nearest decimal of 150 digits, less one unit
				if digits := strings.TrimRight(mantissa, "0"); digits[len(digits)-1] != '.' {
					last := digits[len(digits)-1] - 1
					text = digits[:len(digits)-1] + string(last) + strings.Repeat("9", 180) + "e" + exponent
				}
			case 2:
				text = strconv.FormatFloat(valueOf(typ, bits), 'g', -1, 64)
			case 3:
				text = strconv.FormatFloat(v*(0.9+rng.Float64()/5), 'g', -1, 64)
			}
			if rng.IntN(2) == 0 {
				text = "-" + text
			}
			got, err := scan(d, typ, 1, []byte(text))
			if decimal(text).Cmp(big.NewFloat(overflow(typ))) >= 0 {
				if err == nil {
					t.Fatalf("%s as %v: accepted as %x", text, typ, got)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := nearest(typ, text); binary.LittleEndian.Uint16(got) != want {
				t.Fatalf("%s as %v: got %04x, want %04x", text, typ, got, want)
			}
		}
	}
}

func TestEveryHalfSurvivesTheWayThroughJSON(t *testing.T) {
	d := NewDecoder(Limits{})
	for _, typ := range []edgewise.DataType{edgewise.FP16, edgewise.BF16} {
		all := make([]byte, 0, 2<<16)
		for bits := range 1 << 16 {
			all = binary.LittleEndian.AppendUint16(all, uint16(bits))
		}
		text, err := appendElements(nil, &edgewise.Tensor{Name: "y", Type: typ, Data: all})
		if err != nil {
			t.Fatal(err)
		}
		got, err := scan(d, typ, 1<<16, text[1:len(text)-1])
		if err != nil {
			t.Fatal(err)
		}
		for bits := range 1 << 16 {
			back := binary.LittleEndian.Uint16(got[2*bits:])
			if v := valueOf(typ, uint16(bits)); back != uint16(bits) && !math.IsNaN(v) {
				t.Fatalf("%v %04x (%v) came back as %04x", typ, bits, v, back)
			}
		}
	}
}

func TestWordsForFloatsThatAreNoNumbers(t *testing.T) {
	d := NewDecoder(Limits{})
	for typ, want := range map[edgewise.DataType]string{
		edgewise.FP16: "\x00\x7e\x00\x7c\x00\xfc",
		edgewise.BF16: "\xc0\x7f\x80\x7f\x80\xff",
		edgewise.FP32: "\x00\x00\xc0\x7f\x00\x00\x80\x7f\x00\x00\x80\xff",
		edgewise.FP64: "\x01\x00\x00\x00\x00\x00\xf8\x7f\x00\x00\x00\x00\x00\x00\xf0\x7f\x00\x00\x00\x00\x00\x00\xf0\xff",
	} {
		got, err := scan(d, typ, 3, []byte("NaN, Infinity,-Infinity"))
		if err != nil || string(got) != want {
			t.Errorf("%v: got %x, %v; want %x", typ, got, err, want)
		}
	}
}

func TestIntegersUpToTheirBounds(t *testing.T) {
	tests := map[edgewise.DataType]string{
		edgewise.Bool:   "true,false,true,false",
		edgewise.Uint8:  "0,255,7",
		edgewise.Uint16: "0,65535,7",
		edgewise.Uint32: "0,4294967295,7",
		edgewise.Uint64: "0,18446744073709551615,9999999999999999999",
		edgewise.Int8:   "-128,127,0,-1",
		edgewise.Int16:  "-32768,32767,0,-1",
		edgewise.Int32:  "-2147483648,2147483647,0,-1",
		edgewise.Int64:  "-9223372036854775808,9223372036854775807,0,-1",
	}
	d := NewDecoder(Limits{})
	for typ, text := range tests {
		n := strings.Count(text, ",") + 1
		got, err := scan(d, typ, n, []byte(text))
		if err != nil {
			t.Errorf("%v: %v", typ, err)
			continue
		}
		back, err := appendElements(nil, &edgewise.Tensor{Type: typ, Shape: edgewise.Shape{int64(n)}, Data: got})
		if err != nil || string(back) != "["+text+"]" {
			t.Errorf("%v: %s came back as %s, %v", typ, text, back, err)
		}
	}
	if got, err := scan(d, edgewise.Bool, 4, []byte("1,0,true,false")); err != nil || string(got) != "\x01\x00\x01\x00" {
		t.Errorf("BOOL as numbers: %x, %v", got, err)
	}
	if got, err := scan(d, edgewise.Uint8, 2, []byte("-0,0")); err != nil || string(got) != "\x00\x00" {
		t.Errorf("-0 as UINT8: %x, %v", got, err)
	}
}
