package wasm

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/kernel"
)

// kernels are the imports that compute.
func kernels() []hostFunction {
	list := []hostFunction{
		{"image_info", "iiii:i", imageInfo},
		{"image_decode", "iiiiii:i", imageDecode},
		{"image_resize", "iiiiiiii:i", imageResize},
		{"image_letterbox", "iiiiiiiiii:i", imageLetterbox},
		{"image_normalize", "iiiiiiiii:i", imageNormalize},
		{"image_tensor", "iiiiiiiiii:i", imageTensor},
		{"softmax", "iiii:i", softmax},
		{"top_k", "iiiiii:i", topK},
		{"nms", "iiiiffii:i", nms},
	}
	for i := range list {
		run := list[i].call
		list[i].call = func(a arguments) {
			start := time.Now()
			run(a)
			a.c.host += time.Since(start)
		}
	}
	return list
}

// pace stops a kernel between two rows when the guest is to end.
func (a arguments) pace() { a.c.check(a.c.used()) }

// flags of image_info and image_decode.
const flagTurn = 1

func imageInfo(a arguments) {
	file := a.bytes("src", 0)
	dst := a.view("dst", a.u32(3), 16)
	flags := a.u32(2)
	if flags > flagTurn {
		a.fail("image_info: flags has bits that mean nothing")
		return
	}
	info, err := kernel.ReadInfo(file, flags == flagTurn)
	if err != nil {
		a.fail("image_info: " + err.Error())
		return
	}
	for i, v := range []uint32{uint32(info.Width), uint32(info.Height), uint32(info.Channels), uint32(info.Format)} {
		binary.LittleEndian.PutUint32(dst[4*i:], v)
	}
	a.result(0)
}

func imageDecode(a arguments) {
	file, dst := a.bytes("src", 0), a.bytes("dst", 4)
	flags := a.u32(2)
	if flags > flagTurn {
		a.fail("image_decode: flags has bits that mean nothing")
		return
	}
	if a.overlap(file, dst) {
		a.fail("image_decode: src and dst overlap")
		return
	}
	info, err := kernel.ReadInfo(file, false)
	if err == nil && info.Width*info.Height > largePicture {
		a.c.enter(a.c.p.large)
		a.c.turn.kept = true
		defer func() {
			a.c.turn.kept = false
			<-a.c.p.large
		}()
	}
	n := 0
	if err == nil {
		n, err = kernel.Decode(dst, file, int(min(a.u32(3), math.MaxInt32)), flags == flagTurn, a.pace)
	}
	a.finish("image_decode", n, err)
}

// largePicture is how many pixels make a picture large: the box decodes one such at a time, since a decoder takes
// several bytes for each pixel beside the guest's memory.
const largePicture = 1 << 22

// enter waits for a token, as long as the guest may run.
func (c *call) enter(tokens chan struct{}) {
	for {
		select {
		case tokens <- struct{}{}:
			return
		case <-time.After(lookEvery):
			c.check(c.used())
		}
	}
}

// finish returns n, or -1 with the reason.
func (a arguments) finish(name string, n int, err error) {
	if err != nil {
		a.fail(name + ": " + err.Error())
		return
	}
	a.result(int32(n))
}

// overlap tells whether two views of the memory share a byte.
func (a arguments) overlap(x, y []byte) bool {
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	all := whole(a.mem)
	i, k := offset(all, x), offset(all, y)
	return i < k+len(y) && k < i+len(x)
}

// picture reads the size of a picture from arguments i and i+1. A size that no kernel allows is refused with a reason.
func (a arguments) picture(i int, channels uint32) (kernel.Size, error) {
	clip := func(v uint32) int { return int(min(v, math.MaxInt32)) }
	s := kernel.Size{Width: clip(a.u32(i)), Height: clip(a.u32(i + 1)), Channels: clip(channels)}
	return s, s.Valid()
}

// pictures reads what resizing works on: arguments 0 to 6.
func (a arguments) pictures() (dst []byte, to kernel.Size, src []byte, from kernel.Size, reason string) {
	from, err := a.picture(1, a.u32(6))
	if err != nil {
		return nil, to, nil, from, "src: " + err.Error()
	}
	to, err = a.picture(4, a.u32(6))
	if err != nil {
		return nil, to, nil, from, "dst: " + err.Error()
	}
	src = a.view("src", a.u32(0), uint64(from.Bytes()))
	dst = a.view("dst", a.u32(3), uint64(to.Bytes()))
	if a.overlap(src, dst) {
		reason = "src and dst overlap"
	}
	return dst, to, src, from, reason
}

func imageResize(a arguments) {
	dst, to, src, from, reason := a.pictures()
	if reason != "" {
		a.fail("image_resize: " + reason)
		return
	}
	a.finish("image_resize", 0, kernel.Resize(dst, to, src, from, kernel.Mode(a.u32(7)), a.pace))
}

func imageLetterbox(a arguments) {
	dst, to, src, from, reason := a.pictures()
	if fill := a.u32(8); reason == "" && fill > math.MaxUint8 {
		reason = "fill is above 255"
	}
	if reason != "" {
		a.fail("image_letterbox: " + reason)
		return
	}
	var out []byte
	if p := a.u32(9); p != 0 {
		out = a.view("map", p, 16)
	}
	m, err := kernel.Letterbox(dst, to, src, from, kernel.Mode(a.u32(7)), uint8(a.u32(8)), a.pace)
	if err == nil && out != nil {
		for i, v := range []float32{m.ScaleX, m.ScaleY, m.PadX, m.PadY} {
			binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(v))
		}
	}
	a.finish("image_letterbox", 0, err)
}

// flags of image_normalize.
const (
	flagTogether = 1
	flagReverse  = 2
)

func imageNormalize(a arguments) {
	size, err := a.picture(1, a.u32(3))
	dtype, flags := a.u32(5), a.u32(6)
	l := kernel.Layout{Half: dtype == uint32(edgewise.FP16), Together: flags&flagTogether != 0, Reverse: flags&flagReverse != 0}
	width := 4
	if l.Half {
		width = 2
	}
	reason := ""
	switch {
	case err != nil:
		reason = "src: " + err.Error()
	case !l.Half && dtype != uint32(edgewise.FP32):
		reason = "dtype is neither FP32 (11) nor FP16 (10)"
	case flags > flagTogether|flagReverse:
		reason = "flags has bits that mean nothing"
	}
	if reason != "" {
		a.fail("image_normalize: " + reason)
		return
	}
	src := a.view("src", a.u32(0), uint64(size.Bytes()))
	dst := a.view("dst", a.u32(4), uint64(width*size.Bytes()))
	if a.overlap(src, dst) {
		a.fail("image_normalize: src and dst overlap")
		return
	}
	mean, scale := a.channelValues("mean", 7, size.Channels, 0), a.channelValues("scale", 8, size.Channels, 1)
	a.finish("image_normalize", 0, kernel.Normalise(dst, src, size, mean, scale, l, a.pace))
}

// channelValues reads an f32 for each channel from where argument i points; otherwise when that is 0.
func (a arguments) channelValues(what string, i, channels int, otherwise float32) []float32 {
	values := make([]float32, channels)
	for c := range values {
		values[c] = otherwise
	}
	if p := a.u32(i); p != 0 {
		view := a.view(what, p, 4*uint64(channels))
		for c := range values {
			values[c] = math.Float32frombits(binary.LittleEndian.Uint32(view[4*c:]))
		}
	}
	return values
}

func softmax(a arguments) {
	rows, cols := uint64(a.u32(2)), uint64(a.u32(3))
	size := 4 * rows * cols
	if rows > kernel.MaxRows {
		a.fail("softmax: too many rows")
		return
	}
	src, dst := a.view("src", a.u32(0), size), a.view("dst", a.u32(1), size)
	if a.u32(0) != a.u32(1) && a.overlap(src, dst) {
		a.fail("softmax: src and dst overlap and are not the same")
		return
	}
	a.finish("softmax", 0, kernel.Softmax(dst, src, int(rows), int(cols), a.pace))
}

func topK(a arguments) {
	rows, cols, k := uint64(a.u32(1)), uint64(a.u32(2)), uint64(a.u32(3))
	if rows > kernel.MaxRows || k > kernel.MaxK {
		a.fail("top_k: too many rows, or k is too large")
		return
	}
	src := a.view("src", a.u32(0), 4*rows*cols)
	values, indices := a.view("values", a.u32(4), 4*rows*k), a.view("indices", a.u32(5), 4*rows*k)
	if a.overlap(src, values) || a.overlap(src, indices) || a.overlap(values, indices) {
		a.fail("top_k: src, values and indices overlap")
		return
	}
	a.finish("top_k", 0, kernel.TopK(values, indices, src, int(rows), int(cols), int(k), a.pace))
}

func nms(a arguments) {
	count, most := uint64(a.u32(3)), uint64(a.u32(7))
	if count > kernel.MaxBoxes || most > kernel.MaxKept {
		a.fail("nms: too many boxes, or max is too large")
		return
	}
	b := kernel.Boxes{Corners: a.view("boxes", a.u32(0), 16*count), Scores: a.view("scores", a.u32(1), 4*count), Count: int(count)}
	if p := a.u32(2); p != 0 {
		b.Classes = a.view("classes", p, 4*count)
	}
	dst := a.view("dst", a.u32(6), 4*most)
	if a.overlap(dst, b.Corners) || a.overlap(dst, b.Scores) || a.overlap(dst, b.Classes) {
		a.fail("nms: dst overlaps what it is made from")
		return
	}
	n, err := kernel.NMS(dst, b, a.f32(4), a.f32(5), int(most), a.pace)
	a.finish("nms", n, err)
}
