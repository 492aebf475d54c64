package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/picture"
)

// latePicture is one call of image_tensor. Its picture is made when the step has returned: by the model that reads the
// output, where it takes pictures, else here.
type latePicture struct {
	src, dst          uint32 // where the pixels and the row stand in the guest's memory
	srcSize, dstSize  uint32 // bytes
	picture           edgewise.Picture
	kind              edgewise.DataType
	toWidth, toHeight int
}

func imageTensor(a arguments) (int, error) {
	l, err := a.latePicture()
	if err == nil {
		a.c.pictures = append(a.c.pictures, l)
	}
	return 0, err
}

// latePicture reads the arguments: src, its width and height, crop, dst, its width and height, dtype, mean, scale.
func (a arguments) latePicture() (l latePicture, err error) {
	c := a.c
	if !c.request || c.nested {
		return l, errors.New("only edgewise_process may call it")
	}
	if len(c.pictures) == picture.MaxCount {
		return l, errors.New("more calls in one request than there may be pictures")
	}
	from, err := a.picture(1, 3)
	if err != nil {
		return l, fmt.Errorf("src: %w", err)
	}
	to, err := a.picture(5, 3)
	if err != nil {
		return l, fmt.Errorf("dst: %w", err)
	}
	if to.Width > picture.MaxSide || to.Height > picture.MaxSide {
		return l, errors.New("dst: a side is too large")
	}
	l.kind, l.toWidth, l.toHeight = edgewise.DataType(a.u32(7)), to.Width, to.Height
	if l.kind != edgewise.FP32 && l.kind != edgewise.FP16 {
		return l, errors.New("dtype is neither FP32 (11) nor FP16 (10)")
	}
	l.src, l.srcSize, l.dst, l.dstSize = a.u32(0), uint32(from.Bytes()), a.u32(4), uint32(int(l.kind.Size())*to.Bytes())
	src := a.view("src", l.src, uint64(l.srcSize))
	if a.overlap(src, a.view("dst", l.dst, uint64(l.dstSize))) {
		return l, errors.New("src and dst overlap")
	}
	l.picture = edgewise.Picture{Pixels: src, Stride: 3 * from.Width, Width: from.Width, Height: from.Height}
	a.crop(&l.picture)
	copy(l.picture.Mean[:], a.channelValues("mean", 8, 3, 0))
	copy(l.picture.Scale[:], a.channelValues("scale", 9, 3, 1))
	if !picture.Valid(&l.picture) {
		return l, errors.New("crop: it is not within src, or a side of it is too large")
	}
	l.picture.Pixels = nil // the memory may grow before the step returns
	return l, nil
}

// crop reads the part from where argument 3 points, u32 x, y, width and height; the whole picture when that is 0.
func (a arguments) crop(p *edgewise.Picture) {
	if a.u32(3) == 0 {
		return
	}
	view := a.view("crop", a.u32(3), 16)
	for i, field := range []*int{&p.X, &p.Y, &p.Width, &p.Height} {
		*field = int(binary.LittleEndian.Uint32(view[4*i:]))
	}
}

// finishPictures makes the pictures of image_tensor, in the order of its calls. Pictures that make up a whole output,
// which the caller takes as pictures, are left to the caller. An error is an *edgewise.Error; the guest must be dropped then.
func (c *call) finishPictures(outputs []edgewise.Tensor) (err error) {
	if len(c.pictures) == 0 {
		return nil
	}
	defer func(start time.Time) { c.host += time.Since(start) }(time.Now())
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case *ending:
			err = cause.err
		default:
			panic(cause)
		}
	}()
	memory := whole(c.g.linear)
	for i := range c.pictures {
		l := &c.pictures[i]
		if err := l.misplaced(memory, outputs); err != nil {
			return err
		}
		l.picture.Pixels = memory[l.src:][:l.srcSize]
	}
	for i := range outputs {
		if slices.Contains(c.options.Pictures, outputs[i].Name) {
			c.leave(&outputs[i], memory)
		}
	}
	for i := range c.pictures {
		l := &c.pictures[i]
		picture.Planes(&l.picture, memory[l.dst:][:l.dstSize], l.kind, l.toWidth, l.toHeight, func() { c.check(c.used()) })
	}
	return nil
}

// misplaced refuses a picture that would write into an output of another type: that output's content was checked
// before.
func (l *latePicture) misplaced(memory []byte, outputs []edgewise.Tensor) error {
	for i := range outputs {
		t := &outputs[i]
		if t.Type == l.kind || len(t.Data) == 0 {
			continue
		}
		begin := uint64(offset(memory, t.Data))
		if begin < uint64(l.dst)+uint64(l.dstSize) && uint64(l.dst) < begin+uint64(len(t.Data)) {
			return edgewise.Errorf("wasm.Run", edgewise.Guest,
				"step: image_tensor: dst overlaps output %q, whose dtype is %v and not %v", t.Name, t.Type, l.kind)
		}
	}
	return nil
}

// leave makes an output one of pictures when they are all that it is made of, and takes them off the list.
func (c *call) leave(t *edgewise.Tensor, memory []byte) {
	if len(t.Data) == 0 || len(t.Shape) != 4 || t.Shape[1] != 3 {
		return
	}
	begin := uint32(offset(memory, t.Data))
	end := begin + uint32(len(t.Data))
	p := &edgewise.Pictures{Width: int(t.Shape[3]), Height: int(t.Shape[2])}
	var others []latePicture
	next := begin
	for _, l := range c.pictures {
		if l.dst >= end || l.dst+l.dstSize <= begin {
			others = append(others, l)
			continue
		}
		if l.dst != next || l.kind != t.Type || l.toWidth != p.Width || l.toHeight != p.Height {
			return
		}
		next += l.dstSize
		p.List = append(p.List, l.picture)
	}
	if next == end && int64(len(p.List)) == t.Shape[0] {
		t.Pictures, c.pictures = p, others
	}
}
