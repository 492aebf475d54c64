package kserve

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// FuzzDecodeInfer checks that no body panics the decoder, that what it accepts is well-formed by itself and by
// encoding/json, and that sending it again says the same.
func FuzzDecodeInfer(f *testing.F) {
	f.Add([]byte(tinyBody), -1)
	for _, bad := range badBodies {
		text, rest, split := strings.Cut(bad.body, binaryPart)
		size := -1
		if split {
			size = len(text)
		}
		f.Add([]byte(text+rest), size)
	}
	f.Add([]byte(
		`{"inputs":[{"data":[1,[NaN]],"datatype":"BF16","shape":[2],"name":"x"},{"name":"s","datatype":"BYTES","shape":[1],`+
			`"data":["\ud83d\ude00"]}]}`), -1)
	f.Add([]byte(
		`{"inputs":[{"name":"a","datatype":"INT8","shape":[2],"parameters":{"binary_data_size":2}}],"outputs":[{"name":"y",`+
			`"parameters":{"classification":1}}]}AB`), 138)
	d := NewDecoder(Limits{MaxDecoded: 1 << 20})
	f.Fuzz(func(t *testing.T, body []byte, jsonSize int) {
		before := bytes.Clone(body)
		r, err := d.Infer(model, body, jsonSize)
		if !bytes.Equal(body, before) {
			t.Fatal("the body was written to")
		}
		if err != nil {
			if kind := edgewise.KindOf(err); kind != edgewise.Invalid && kind != edgewise.TooLarge &&
				kind != edgewise.Unsupported {
				t.Fatalf("kind %v: %v", kind, err)
			}
			return
		}
		defer r.Release()
		text := body
		if jsonSize >= 0 {
			text = body[:jsonSize]
		}
		if !json.Valid(text) && !bytes.Contains(text, []byte("NaN")) && !bytes.Contains(text, []byte("Infinity")) {
			t.Fatal("accepted what is no JSON")
		}
		for i := range r.Inputs {
			if r.Shared[i].Set() {
				return // its bytes are elsewhere
			}
			if r.binary[i] < 0 {
				if err := r.Inputs[i].Check(); err != nil {
					t.Fatal(err)
				}
			} else if r.Inputs[i].Check() != nil {
				return // the scheduler's to refuse
			}
		}
		if r.Sequence.Start && !r.Sequence.Active() || r.Sequence.End && !r.Sequence.Active() {
			return // not sent without a sequence
		}
		again, size, err := AppendInferRequest(nil, &r.Request, Binary, JSON)
		if err != nil {
			t.Fatal(err)
		}
		second, err := d.Infer(model, again, size)
		if err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		defer second.Release()
		if diff := cmp.Diff(r.Request, second.Request, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzScanFloat compares the scanner with encoding/json, which knows the grammar, and strconv, which knows the value.
func FuzzScanFloat(f *testing.F) {
	for _, s := range []string{
		"0", "-0", "1", "-1.5", "1e5", "1E-5", "0.1", "16777217", "1e39", "3.4028235677973366e38", "1e-46", "00", "01", "1.",
		".5", "+1", "-", "1e", "1e+", "0x1p-2", "1_000", "NaN", "Inf",
		"123456789012345678901234567890", "0.000000000000000000000000000001", "9007199254740993",
		"1.00000005960464477539062500", "65520", "65519.999999999999999999999999999",
	} {
		f.Add(s)
	}
	d := NewDecoder(Limits{})
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsAny(s, "[],NI \t\r\n") { // not one element, or a word
			return
		}
		valid := json.Valid([]byte(s)) && s != "" && (s[0] == '-' || isDigit(s[0]))
		for typ, bitSize := range map[edgewise.DataType]int{edgewise.FP32: 32, edgewise.FP64: 64} {
			got, err := scan(d, typ, 1, []byte(s))
			v, parseErr := strconv.ParseFloat(s, bitSize)
			if want := valid && parseErr == nil; (err == nil) != want {
				t.Fatalf("%q as %v: %v; valid %v, %v", s, typ, err, valid, parseErr)
			}
			if err == nil && !bytes.Equal(got, appendBits(nil, v, bitSize)) {
				t.Fatalf("%q as %v: got %x, strconv gives %v", s, typ, got, v)
			}
		}
		got, err := scan(d, edgewise.FP16, 1, []byte(s))
		if v, _ := strconv.ParseFloat(s, 64); err == nil && math.Abs(v) < 65504 {
			back := scalar.Float(edgewise.FP16, got)
			if step := math.Ldexp(1, max(math.Ilogb(v), -14)-10); math.Abs(back-v) > step/2 {
				t.Fatalf("%q as FP16 is %v", s, back)
			}
		}
	})
}

// FuzzResponse checks that what the server writes is what the client reads.
func FuzzResponse(f *testing.F) {
	f.Add("id", "out", uint8(edgewise.FP32), []byte("\x00\x00\x80\x3f\x00\x00\x80\x7f"), false)
	f.Add("", "é\"", uint8(edgewise.Bytes), []byte("\x01\x00\x00\x00a\x00\x00\x00\x00"), false)
	f.Add("", "b", uint8(edgewise.Bytes), []byte("\x01\x00\x00\x00\xff"), true)
	f.Add("\x00", "h", uint8(edgewise.FP16), []byte("\x01\x00\xff\x7b"), false)
	f.Add("1", "i", uint8(edgewise.Int64), []byte("\x00\x00\x00\x00\x00\x00\x00\x80"), false)
	f.Fuzz(func(t *testing.T, id, name string, typ uint8, data []byte, inBinary bool) {
		out := edgewise.Tensor{Name: name, Type: edgewise.DataType(typ), Data: data}
		n := int64(0)
		if out.Type == edgewise.Bytes {
			for range edgewise.Elements(data) {
				n++
			}
		} else if size := out.Type.Size(); size > 0 {
			n = int64(len(data)) / size
		}
		out.Shape = edgewise.Shape{n}
		if out.Check() != nil || out.Type == edgewise.InvalidType || name == "" || len(name) > DefaultMaxName ||
			len(id) > DefaultMaxName {
			return
		}
		if out.Type == edgewise.Bool {
			for i := range data {
				data[i] &= 1
			}
		}
		want := &edgewise.Response{ID: id, Model: model, Outputs: []edgewise.Tensor{out}}
		body, jsonSize, err := AppendInferResponse(nil, &InferRequest{BinaryOutput: inBinary}, want)
		if err != nil {
			if out.Type == edgewise.Bytes && !inBinary {
				return // not text
			}
			t.Fatal(err)
		}
		got, err := DecodeInferResponse(body, jsonSize, Limits{})
		if err != nil {
			if strings.Contains(err.Error(), "bytes, at most 1024") {
				return // replaced bytes made a name longer
			}
			t.Fatalf("%v: %s", err, body)
		}
		want.ID = string([]rune(id))
		if got.ID != want.ID || got.Outputs[0].Name != string([]rune(name)) || !got.Outputs[0].Shape.Equal(out.Shape) {
			t.Fatalf("got %+v of %s", got, body)
		}
		if !bytes.Equal(got.Outputs[0].Data, data) && !sameNumbers(out.Type, got.Outputs[0].Data, data) {
			t.Fatalf("got %x, want %x of %s", got.Outputs[0].Data, data, body)
		}
	})
}

// sameNumbers tells whether two tensors of a floating type differ in the bits of NaN only, which text does not carry.
func sameNumbers(typ edgewise.DataType, a, b []byte) bool {
	size := int(typ.Size())
	if !typ.IsFloat() || len(a) != len(b) {
		return false
	}
	for at := 0; at < len(a); at += size {
		x, y := scalar.Float(typ, a[at:]), scalar.Float(typ, b[at:])
		if math.IsNaN(x) != math.IsNaN(y) || !math.IsNaN(x) && !bytes.Equal(a[at:at+size], b[at:at+size]) {
			return false
		}
	}
	return true
}
