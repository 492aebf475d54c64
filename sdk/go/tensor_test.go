package step

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestElementsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "elements")
		tensor := OfBytes("x", want)
		got := Elements(&tensor)
		if len(got) != len(want) || tensor.Shape[0] != int64(len(want)) {
			t.Fatalf("%d elements of shape %v: want %d", len(got), tensor.Shape, len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("element %d is %q: want %q", i, got[i], want[i])
			}
		}
	})
}

func TestElementsEndAtAFrameThatIsNotWhole(t *testing.T) {
	whole := OfBytes("x", []string{"cat", "dog"}).Data
	for n := range whole {
		got := Elements(&Tensor{Type: Bytes, Data: whole[:n]})
		if want := n / 7; len(got) != want {
			t.Errorf("%d bytes: %d elements, want %d", n, len(got), want)
		}
	}
}

func TestAViewIsTheTensorItself(t *testing.T) {
	values := []float32{1, 2, 3, 4}
	tensor := Of("x", values, 2, 2)
	view := View[float32](&tensor)
	view[3] = float32(math.Pi)
	if values[3] != float32(math.Pi) || len(tensor.Data) != 16 || tensor.Type != FP32 {
		t.Errorf("values %v, tensor %+v", values, tensor)
	}
	if View[int32](&tensor) != nil {
		t.Error("an FP32 tensor is viewed as INT32")
	}
}

func TestInputNamesWhatIsWrong(t *testing.T) {
	list := List{Of("x", []int8{1}), Scalar("s", uint16(7)), OfBytes("b", []string{"b"})}
	tests := []struct{ name, want string }{
		{"x", `input "x" is INT8: want FP32`},
		{"y", `input "y" is missing`},
		{"b", `input "b" is BYTES: want FP32`},
		{"s", `input "s" is UINT16: want FP32`},
	}
	for _, tt := range tests {
		if _, err := Input[float32](list, tt.name); err == nil || err.Error() != tt.want {
			t.Errorf("%v: want %s", err, tt.want)
		}
	}
	if s, err := Input[uint16](list, "s"); err != nil || s.Shape != nil || s.Values[0] != 7 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, all, err := InputBytes(list, "b"); err != nil || string(all[0]) != "b" {
		t.Errorf("%q, %v", all, err)
	}
	if _, _, err := InputBytes(list, "x"); err == nil || err.Error() != `input "x" is INT8: want BYTES` {
		t.Errorf("%v", err)
	}
}

func TestEveryTypeHasItsNumber(t *testing.T) {
	got := []DataType{
		TypeOf[bool](), TypeOf[uint8](), TypeOf[uint16](), TypeOf[uint32](), TypeOf[uint64](), TypeOf[int8](),
		TypeOf[int16](), TypeOf[int32](), TypeOf[int64](),
		TypeOf[Half](), TypeOf[float32](), TypeOf[float64](), Bytes, TypeOf[BFloat16](),
	}
	for i, d := range got {
		if d != DataType(i+1) {
			t.Errorf("%v has number %d: want %d", d, d, i+1)
		}
	}
	if DataType(99).String() != "DataType(99)" || BF16.String() != "BF16" {
		t.Errorf("%v %v", DataType(99), BF16)
	}
}
