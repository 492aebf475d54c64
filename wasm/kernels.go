package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/wasm/kernel"
)

// kernels are the imports that compute. Each returns a number, or -1 with a reason.
func kernels() []hostFunction {
	return []hostFunction{
		{"image_info", "iiii:i", answer(imageInfo)},
		{"image_decode", "iiiiii:i", answer(imageDecode)},
		{"image_resize", "iiiiiiii:i", answer(imageResize)},
		{"image_letterbox", "iiiiiiiiii:i", answer(imageLetterbox)},
		{"image_normalize", "iiiiiiiii:i", answer(imageNormalize)},
		{"image_tensor", "iiiiiiiiii:i", answer(imageTensor)},
		{"softmax", "iiii:i", answer(softmax)},
		{"top_k", "iiiiii:i", answer(topK)},
		{"nms", "iiiiffii:i", answer(nms)},
	}
}

// answer makes an import of a kernel, whose time counts as the host's.
func answer(run func(arguments) (int, error)) func(arguments) {
	return func(a arguments) {
		start := time.Now()
		n, err := run(a)
		if err != nil {
			a.c.lastError, n = a.name+": "+err.Error(), -1
		}
		a.result(int32(n))
		a.c.host += time.Since(start)
	}
}

// pace stops a kernel between two rows when the guest is to end.
func (a arguments) pace() { a.c.check(a.c.used()) }

// flags of image_info and image_decode.
const flagTurn = 1

func imageInfo(a arguments) (int, error) {
	file := a.bytes("src", 0)
	dst := a.view("dst", a.u32(3), 16)
	flags := a.u32(2)
	if flags > flagTurn {
		return 0, errors.New("flags has bits that mean nothing")
	}
	info, err := kernel.ReadInfo(file, flags == flagTurn)
	if err != nil {
		return 0, err
	}
	for i, v := range []uint32{uint32(info.Width), uint32(info.Height), uint32(info.Channels), uint32(info.Format)} {
		binary.LittleEndian.PutUint32(dst[4*i:], v)
	}
	return 0, nil
}

func imageDecode(a arguments) (int, error) {
	file, dst := a.bytes("src", 0), a.bytes("dst", 4)
	flags := a.u32(2)
	if flags > flagTurn {
		return 0, errors.New("flags has bits that mean nothing")
	}
	if a.overlap(file, dst) {
		return 0, errors.New("src and dst overlap")
	}
	info, err := kernel.ReadInfo(file, false)
	if err != nil {
		return 0, err
	}
	if info.Width*info.Height > largePicture {
		a.c.enter(a.c.p.large)
		a.c.turn.kept = true
		defer func() {
			a.c.turn.kept = false
			<-a.c.p.large
		}()
	}
	return kernel.Decode(dst, file, int(min(a.u32(3), math.MaxInt32)), flags == flagTurn, a.pace)
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
func (a arguments) pictures() (dst []byte, to kernel.Size, src []byte, from kernel.Size, err error) {
	if from, err = a.picture(1, a.u32(6)); err != nil {
		return nil, to, nil, from, fmt.Errorf("src: %w", err)
	}
	if to, err = a.picture(4, a.u32(6)); err != nil {
		return nil, to, nil, from, fmt.Errorf("dst: %w", err)
	}
	src = a.view("src", a.u32(0), uint64(from.Bytes()))
	dst = a.view("dst", a.u32(3), uint64(to.Bytes()))
	if a.overlap(src, dst) {
		err = errors.New("src and dst overlap")
	}
	return dst, to, src, from, err
}

func imageResize(a arguments) (int, error) {
	dst, to, src, from, err := a.pictures()
	if err != nil {
		return 0, err
	}
	return 0, kernel.Resize(dst, to, src, from, kernel.Mode(a.u32(7)), a.pace)
}

func imageLetterbox(a arguments) (int, error) {
	dst, to, src, from, err := a.pictures()
	if err != nil {
		return 0, err
	}
	if a.u32(8) > math.MaxUint8 {
		return 0, errors.New("fill is above 255")
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
	return 0, err
}

// flags of image_normalize.
const (
	flagTogether = 1
	flagReverse  = 2
)

func imageNormalize(a arguments) (int, error) {
	size, err := a.picture(1, a.u32(3))
	dtype, flags := a.u32(5), a.u32(6)
	l := kernel.Layout{Half: dtype == uint32(edgewise.FP16), Together: flags&flagTogether != 0, Reverse: flags&flagReverse != 0}
	width := 4
	if l.Half {
		width = 2
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("src: %w", err)
	case !l.Half && dtype != uint32(edgewise.FP32):
		return 0, errors.New("dtype is neither FP32 (11) nor FP16 (10)")
	case flags > flagTogether|flagReverse:
		return 0, errors.New("flags has bits that mean nothing")
	}
	src := a.view("src", a.u32(0), uint64(size.Bytes()))
	dst := a.view("dst", a.u32(4), uint64(width*size.Bytes()))
	if a.overlap(src, dst) {
		return 0, errors.New("src and dst overlap")
	}
	mean, scale := a.channelValues("mean", 7, size.Channels, 0), a.channelValues("scale", 8, size.Channels, 1)
	return 0, kernel.Normalise(dst, src, size, mean, scale, l, a.pace)
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

func softmax(a arguments) (int, error) {
	rows, cols := uint64(a.u32(2)), uint64(a.u32(3))
	size := 4 * rows * cols
	if rows > kernel.MaxRows {
		return 0, errors.New("too many rows")
	}
	src, dst := a.view("src", a.u32(0), size), a.view("dst", a.u32(1), size)
	if a.u32(0) != a.u32(1) && a.overlap(src, dst) {
		return 0, errors.New("src and dst overlap and are not the same")
	}
	return 0, kernel.Softmax(dst, src, int(rows), int(cols), a.pace)
}

func topK(a arguments) (int, error) {
	rows, cols, k := uint64(a.u32(1)), uint64(a.u32(2)), uint64(a.u32(3))
	if rows > kernel.MaxRows || k > kernel.MaxK {
		return 0, errors.New("too many rows, or k is too large")
	}
	src := a.view("src", a.u32(0), 4*rows*cols)
	values, indices := a.view("values", a.u32(4), 4*rows*k), a.view("indices", a.u32(5), 4*rows*k)
	if a.overlap(src, values) || a.overlap(src, indices) || a.overlap(values, indices) {
		return 0, errors.New("src, values and indices overlap")
	}
	return 0, kernel.TopK(values, indices, src, int(rows), int(cols), int(k), a.pace)
}

func nms(a arguments) (int, error) {
	count, most := uint64(a.u32(3)), uint64(a.u32(7))
	if count > kernel.MaxBoxes || most > kernel.MaxKept {
		return 0, errors.New("too many boxes, or max is too large")
	}
	b := kernel.Boxes{Corners: a.view("boxes", a.u32(0), 16*count), Scores: a.view("scores", a.u32(1), 4*count), Count: int(count)}
	if p := a.u32(2); p != 0 {
		b.Classes = a.view("classes", p, 4*count)
	}
	dst := a.view("dst", a.u32(6), 4*most)
	if a.overlap(dst, b.Corners) || a.overlap(dst, b.Scores) || a.overlap(dst, b.Classes) {
		return 0, errors.New("dst overlaps what it is made from")
	}
	return kernel.NMS(dst, b, a.f32(4), a.f32(5), int(most), a.pace)
}
