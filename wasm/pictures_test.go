package wasm

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/picture"
)

// picturing makes the output t, two rows of 3 planes of 2x1 pixels at 8192, of pictures of 2x2 pixels whose bytes are
// at 2048. The first element of its input chooses what it asks of image_tensor; it fails with the reason when that is
// refused.
const picturing = `
(import "edgewise_v1" "image_tensor" (func $tensor (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
(import "edgewise_v1" "fail" (func $fail (param i32 i32)))
(import "edgewise_v1" "last_error" (func $error (param i32 i32) (result i32)))
` + prelude + `
(data (i32.const 1024) "\01\00\00\00\00\00\00\00"
  "\50\04\00\00\01\00\00\00\0b\00\00\00\04\00\00\00\58\04\00\00\00\20\00\00\30\00\00\00\00\00\00\00")
(data (i32.const 1104) "t")
(data (i32.const 1112) "\02\00\00\00\00\00\00\00\03\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\02\00\00\00\00\00\00\00")
(data (i32.const 1200) "\00\00\80\3f\00\00\00\00\00\00\00\40")
(data (i32.const 1216) "\00\00\00\00\01\00\00\00\02\00\00\00\01\00\00\00")
(data (i32.const 2048) "\00\01\02\03\04\05\06\07\08\09\0a\0b")
(data (i32.const 8192) "abcdefgh")
(func $make (param $crop i32) (param $dst i32) (param $width i32) (param $type i32)
  (if (i32.lt_s (call $tensor (i32.const 2048) (i32.const 2) (i32.const 2) (local.get $crop) (local.get $dst)
    (local.get $width) (i32.const 1) (local.get $type) (i32.const 1200) (i32.const 0)) (i32.const 0))
    (then (call $fail (i32.const 512) (call $error (i32.const 512) (i32.const 200))))))
(func (export "edgewise_process") (param $in i32) (result i32) (local $d i32)
  (local.set $d (i32.load (i32.load (i32.add (local.get $in) (i32.const 28)))))
  (if (i32.eq (local.get $d) (i32.const 0)) (then
    (call $make (i32.const 1216) (i32.const 8192) (i32.const 2) (i32.const 11))
      (call $make (i32.const 0) (i32.const 8216) (i32.const 2) (i32.const 11))
    (if (i32.ne (i32.load (i32.const 8192)) (i32.const 0x64636261)) (then unreachable))))
  (if (i32.eq (local.get $d) (i32.const 1)) (then
    (call $make (i32.const 0) (i32.const 8216) (i32.const 2) (i32.const 11))))
  (if (i32.eq (local.get $d) (i32.const 2)) (then
    (call $make (i32.const 0) (i32.const 8192) (i32.const 2) (i32.const 11))
      (call $make (i32.const 0) (i32.const 8192) (i32.const 2) (i32.const 11))
      (call $make (i32.const 1216) (i32.const 8216) (i32.const 2) (i32.const 11))))
  (if (i32.eq (local.get $d) (i32.const 3)) (then (call $make (i32.const 0) (i32.const 8192) (i32.const 2)
    (i32.const 12)) (return (i32.const 0))))
  (if (i32.eq (local.get $d) (i32.const 4)) (then (call $make (i32.const 0) (i32.const 2050) (i32.const 2)
    (i32.const 11)) (return (i32.const 0))))
  (if (i32.eq (local.get $d) (i32.const 5)) (then (i32.store (i32.const 1216) (i32.const 1))
    (call $make (i32.const 1216) (i32.const 8192) (i32.const 2) (i32.const 11)) (return (i32.const 0))))
  (if (i32.eq (local.get $d) (i32.const 6)) (then (call $make (i32.const 0) (i32.const 8192) (i32.const 0)
    (i32.const 11)) (return (i32.const 0))))
  (if (i32.eq (local.get $d) (i32.const 7)) (then (call $make (i32.const 0) (i32.const 8192) (i32.const 20000)
    (i32.const 11)) (return (i32.const 0))))
  (if (i32.eq (local.get $d) (i32.const 8)) (then (local.set $in (i32.const 1025))
    loop $l (call $make (i32.const 0) (i32.const 8192) (i32.const 2) (i32.const 11))
      (br_if $l (local.tee $in (i32.sub (local.get $in) (i32.const 1)))) end (return (i32.const 0))))
  i32.const 1024)`

func picturer(t *testing.T) *step {
	m := model()
	m.Output = []edgewise.ModelOutput{{Name: "t", DataType: edgewise.FP32, Dims: edgewise.Shape{-1, 3, 1, 2}}}
	return load(t, Config{}, m, picturing)
}

// The rows that picturing makes, less the means 1, 0 and 2: of the lower half of the picture as it is, and of all of
// it, made half as high.
var (
	lower = [6]float32{5, 8, 7, 10, 6, 9}
	all   = [6]float32{2, 5, 4, 7, 3, 6}
)

func row(data []byte) (values [6]float32) {
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values
}

func (s *step) picture(t *testing.T, what uint32, takes ...string) (*edgewise.Result, error) {
	t.Helper()
	in := []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: binary.LittleEndian.AppendUint32(nil, what)}}
	return s.Run(t.Context(), in, []string{"t"}, edgewise.RunOptions{Pictures: takes})
}

func TestATensorOfPicturesIsThereWhenTheStepHasReturned(t *testing.T) {
	s := picturer(t)
	for what, want := range map[uint32][2][6]float32{0: {lower, all}, 2: {all, lower}} {
		r, err := s.picture(t, what)
		if err != nil {
			t.Fatal(err)
		}
		out := r.Outputs[0]
		if got := [2][6]float32{row(out.Data), row(out.Data[24:])}; out.Pictures != nil || got != want {
			t.Errorf("%d: %v, want %v", what, got, want)
		}
		r.Free()
	}
}

// TestOnlyAWholeOutputIsLeftToItsReader asks for pictures: an output that is made of them row by row stays undone, any
// other is made.
func TestOnlyAWholeOutputIsLeftToItsReader(t *testing.T) {
	s := picturer(t)
	for _, test := range []struct {
		what  uint32
		takes string
		left  bool
	}{{0, "t", true}, {0, "other", false}, {1, "t", false}, {2, "t", false}} {
		r, err := s.picture(t, test.what, test.takes)
		if err != nil {
			t.Fatal(err)
		}
		out := &r.Outputs[0]
		if (out.Pictures != nil) != test.left {
			t.Errorf("%+v: pictures %v", test, out.Pictures)
		}
		if test.left {
			if string(out.Data[:8]) != "abcdefgh" || len(out.Pictures.List) != 2 {
				t.Errorf("its memory was written to: %q", out.Data[:8])
			}
			if picture.Settle(out); row(out.Data)[0] != lower[0] || row(out.Data[24:])[5] != all[5] {
				t.Errorf("%v and %v", row(out.Data), row(out.Data[24:]))
			}
		}
		r.Free()
	}
	var held []*edgewise.Result
	for range 4 { // more than there are guests: some results are copied
		r, err := s.picture(t, 0, "t")
		if err != nil {
			t.Fatal(err)
		}
		if r.Outputs[0].Pictures == nil && row(r.Outputs[0].Data)[0] != lower[0] {
			t.Error("a result that was copied is not there")
		}
		held = append(held, r)
	}
	for _, r := range held {
		r.Free()
	}
}

func TestWhatImageTensorRefuses(t *testing.T) {
	s := picturer(t)
	for what, want := range map[uint32]string{
		3: "dtype is neither FP32 (11) nor FP16 (10)", 4: "src and dst overlap", 5: "crop: it is not within src",
		6: "dst: a picture of 0 x 1 pixels", 7: "dst: a side is too large", 8: "more calls in one request",
	} {
		if _, err := s.picture(t, what); err == nil || !strings.Contains(err.Error(), "image_tensor: "+want) {
			t.Errorf("%d: %v", what, err)
		}
	}
	r, err := s.picture(t, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.Free()
}

// overwriting returns the output s, one string of four bytes at 8192, and asks image_tensor for a picture of 24 bytes
// that begins at 8168 plus the first element of its input.
const overwriting = `
(import "edgewise_v1" "image_tensor" (func $tensor (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
` + prelude + `
(data (i32.const 1024) "\01\00\00\00\00\00\00\00"
  "\50\04\00\00\01\00\00\00\0d\00\00\00\01\00\00\00\58\04\00\00\00\20\00\00\08\00\00\00\00\00\00\00")
(data (i32.const 1104) "s")
(data (i32.const 1112) "\01\00\00\00\00\00\00\00")
(data (i32.const 2048) "\00\01\02\03\04\05\06\07\08\09\0a\0b")
(data (i32.const 8192) "\04\00\00\00abcd")
(func (export "edgewise_process") (param $in i32) (result i32) (local $d i32)
  (local.set $d (i32.load (i32.load (i32.add (local.get $in) (i32.const 28)))))
  (drop (call $tensor (i32.const 2048) (i32.const 2) (i32.const 2) (i32.const 0)
    (i32.add (i32.const 8168) (local.get $d)) (i32.const 2) (i32.const 1) (i32.const 11) (i32.const 0) (i32.const 0)))
  i32.const 1024)`

func TestAPictureIsNeverWrittenIntoAnOutputOfStrings(t *testing.T) {
	m := model()
	m.Output = []edgewise.ModelOutput{{Name: "s", DataType: edgewise.Bytes, Dims: edgewise.Shape{-1}}}
	s := load(t, Config{}, m, overwriting)
	for _, over := range []uint32{0, 4, 24, 31, 32} {
		in := []edgewise.Tensor{{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1}, Data: binary.LittleEndian.AppendUint32(nil, over)}}
		r, err := s.Run(t.Context(), in, []string{"s"}, edgewise.RunOptions{})
		if apart := over == 0 || over == 32; !apart {
			if err == nil || !strings.Contains(err.Error(), `image_tensor: dst overlaps output "s", whose dtype is BYTES`) {
				t.Errorf("%d bytes further on: %v", over, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.Outputs[0].Data); got != "\x04\x00\x00\x00abcd" {
			t.Errorf("%d bytes further on the output is %q", over, got)
		}
		r.Free()
	}
}
