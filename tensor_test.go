package edgewise

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestDataTypeNames(t *testing.T) {
	for kind := Bool; kind < dataTypes; kind++ {
		if got, ok := ParseDataType(kind.String()); !ok || got != kind {
			t.Errorf("%v is read back as %v", kind, got)
		}
		text, err := json.Marshal(kind)
		if err != nil {
			t.Fatal(err)
		}
		var back DataType
		if err := json.Unmarshal(text, &back); err != nil || back != kind {
			t.Errorf("%v is written as %s and read back as %v, %v", kind, text, back, err)
		}
	}
	for _, name := range []string{"FP32", "TYPE_", "TYPE_BYTES", "TYPE_fp32", "TYPE_FLOAT"} {
		var kind DataType
		if err := kind.UnmarshalText([]byte(name)); err == nil {
			t.Errorf("%q is read as %v", name, kind)
		}
	}
	if _, ok := ParseDataType("INVALID"); ok {
		t.Error("INVALID is a type")
	}
}

func TestElements(t *testing.T) {
	tests := []struct {
		name  string
		shape Shape
		want  int64
		ok    bool
	}{
		{"scalar", Shape{}, 1, true},
		{"image", Shape{1, 3, 224, 224}, 150528, true},
		{"empty", Shape{4, 0, 4}, 0, true},
		{"largest", Shape{math.MaxInt64}, math.MaxInt64, true},
		{"negative", Shape{2, -1}, 0, false},
		{"overflow", Shape{1 << 32, 1 << 32}, 0, false},
		{"overflow by one", Shape{math.MaxInt64, 2}, 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if n, ok := test.shape.Elements(); ok != test.ok || ok && n != test.want {
				t.Errorf("%v has %d elements, %v", test.shape, n, ok)
			}
		})
	}
}

func TestAccepts(t *testing.T) {
	tests := []struct {
		name       string
		spec, give Shape
		want       bool
	}{
		{"equal", Shape{1, 2}, Shape{1, 2}, true},
		{"any", Shape{-1, 2}, Shape{7, 2}, true},
		{"any includes none", Shape{-1}, Shape{0}, true},
		{"other size", Shape{-1, 2}, Shape{7, 3}, false},
		{"other rank", Shape{-1}, Shape{}, false},
		{"negative", Shape{-1}, Shape{-1}, false},
		{"scalar", Shape{}, Shape{}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.spec.Accepts(test.give); got != test.want {
				t.Errorf("%v accepts %v: %v", test.spec, test.give, got)
			}
		})
	}
}

func TestTensorCheck(t *testing.T) {
	tests := []struct {
		name   string
		tensor Tensor
		want   string
	}{
		{"good", Tensor{Name: "x", Type: FP32, Shape: Shape{2}, Data: make([]byte, 8)}, ""},
		{
			"good strings",
			Tensor{Name: "x", Type: Bytes, Shape: Shape{2}, Data: AppendElement(AppendElement(nil, "a"), "")},
			"",
		},
		{"empty", Tensor{Name: "x", Type: FP64, Shape: Shape{0}, Data: nil}, ""},
		{
			"too few bytes",
			Tensor{Name: "x", Type: FP32, Shape: Shape{2}, Data: make([]byte, 7)},
			`tensor "x": FP32[2] takes 2 elements of 4 bytes, got 7 bytes`,
		},
		{
			"size overflow",
			Tensor{Name: "x", Type: FP64, Shape: Shape{math.MaxInt64 / 4}, Data: nil},
			"elements of 8 bytes, got 0 bytes",
		},
		{
			"shape overflow",
			Tensor{Name: "x", Type: FP64, Shape: Shape{1 << 62, 4}, Data: nil},
			"has a negative size or too many elements",
		},
		{
			"rank",
			Tensor{Name: "x", Type: FP32, Shape: make(Shape, 33), Data: nil},
			`tensor "x": 33 dimensions, at most 32 are allowed`,
		},
		{"no type", Tensor{Name: "x", Type: InvalidType, Shape: Shape{}, Data: nil}, "unknown data type INVALID"},
		{
			"framing",
			Tensor{Name: "x", Type: Bytes, Shape: Shape{1}, Data: []byte{5, 0, 0, 0, 'a'}},
			"incomplete string data for tensor 'x', expecting string of length 5 but only 1 bytes available",
		},
		{
			"a length beyond everything",
			Tensor{Name: "x", Type: Bytes, Shape: Shape{1}, Data: []byte{0xff, 0xff, 0xff, 0xff}},
			"expecting string of length 4294967295 but only 0 bytes available",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.tensor.Check()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestFramingCountsToTheFirstElementTooMany(t *testing.T) {
	var data []byte
	for range 5 {
		data = AppendElement(data, "x")
	}
	const want = "unexpected number of string elements 3 for inference input 'x', expecting 2"
	if err := CheckFraming(data, 2, "for inference input 'x'"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzFraming holds the check against the iterator: what passes the check is iterated whole, and framed again it is the
// same bytes.
func FuzzFraming(f *testing.F) {
	f.Add(AppendElement(AppendElement(nil, "a\x00"), ""), int64(2))
	f.Add([]byte{1, 0, 0, 0}, int64(1))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0}, int64(1))
	f.Fuzz(func(t *testing.T, data []byte, n int64) {
		var again []byte
		var seen int64
		for element := range Elements(data) {
			again = AppendElement(again, string(element))
			seen++
		}
		if CheckFraming(data, n, "") == nil && (seen != n || string(again) != string(data)) {
			t.Errorf("%x passes as %d elements and yields %d: %x", data, n, seen, again)
		}
	})
}
