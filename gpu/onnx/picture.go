package onnx

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/preprocess"
	"github.com/edgewise-ai/edgewise/picture"
)

// NormalSize is the elements of a row of a NormalInput: three means, then three factors, of red, green and blue.
const NormalSize = 6

// maxPixels bounds the bytes of the pictures of one batch.
const maxPixels = 256 << 20

// NormalInput is the name under which a run gets what is done to the channels of the pictures of an input.
func NormalInput(input string) string { return input + ".normal" }

// PictureInput tells whether a version on a GPU can be run with pictures in place of an input, and which: the one FP32
// or FP16 input of three planes of a fixed size. Such a run has for it UINT8[batch, height, width, 3], pictures of any
// one size, and FP32[batch, NormalSize] under the name NormalInput; the device makes the input of them, as
// edgewise.Picture says. It fails with Unsupported where the device cannot.
func PictureInput(m *edgewise.Model, file *edgewise.Inspection) (input string, ok bool) {
	if m.Parameters["gpu_pictures"].StringValue == "off" || m.MaxBatchSize < 1 {
		return "", false
	}
	sizes, err := buckets(m)
	if err != nil || len(sizes) == 0 {
		return "", false
	}
	inputs, _, ok := plans(m, file, sizes[len(sizes)-1], m.PipelineSlots())
	if !ok {
		return "", false
	}
	at := pictureInput(inputs)
	if at < 0 || slices.ContainsFunc(m.Input,
		func(in edgewise.ModelInput) bool { return in.Name == inputs[at].name && in.Reshape != nil }) {
		return "", false
	}
	return inputs[at].name, true
}

// pictureInput returns the number of the one input that can be made of pictures, -1 when there is none or more than
// one.
func pictureInput(inputs []plan) int {
	found := -1
	for i := range inputs {
		p := &inputs[i]
		if p.kind != edgewise.FP32 && p.kind != edgewise.FP16 || len(p.row) != 3 || p.row[0] != 3 ||
			p.row[1] > picture.MaxSide || p.row[2] > picture.MaxSide {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}

// pictures are what a batch has in place of an input.
type pictures struct {
	pixels  []byte
	size    preprocess.Size // of each
	normals []preprocess.Normal
}

// picturesOf reads the two tensors of a run with pictures; nil when it has none that fit.
func picturesOf(in []edgewise.Tensor, input string, rows int) *pictures {
	var p pictures
	for i := range in {
		switch t := &in[i]; {
		case t.Name == input && t.Type == edgewise.Uint8 && len(t.Shape) == 4 && t.Shape[0] == int64(rows) &&
			t.Shape[3] == 3 && t.Shape[1] <= picture.MaxSide && t.Shape[2] <= picture.MaxSide:
			p.pixels, p.size = t.Data, preprocess.Size{Width: int(t.Shape[2]), Height: int(t.Shape[1])}
		case t.Name == NormalInput(input) && t.Type == edgewise.FP32 &&
			t.Shape.Equal(edgewise.Shape{int64(rows), NormalSize}):
			p.normals = make([]preprocess.Normal, rows)
			for r := range p.normals {
				for c := range 3 {
					p.normals[r].Mean[c], p.normals[r].Scale[c] = float(t.Data, NormalSize*r+c), float(t.Data, NormalSize*r+3+c)
				}
			}
		}
	}
	n := len(p.pixels)
	if n == 0 || n > maxPixels || len(p.normals) != rows || n != 3*p.size.Width*p.size.Height*rows {
		return nil
	}
	return &p
}

func float(data []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
}

// easel is what a slot has for pictures: their table, and their pixels, for which memory is taken as batches need it.
type easel struct {
	table  buffer
	pixels buffer
	room   int // bytes of pixels
}

// open makes room for the table of so many rows.
func (e *easel) open(c *cuda.Ctx, rows int) error {
	b, err := newBuffer(c, preprocess.TableSize(rows))
	if err == nil {
		e.table = b
	}
	return err
}

func (e *easel) close(c *cuda.Ctx) error {
	var errs []error
	for _, b := range []*buffer{&e.table, &e.pixels} {
		if b.host != nil {
			errs = append(errs, b.close(c))
			*b = buffer{}
		}
	}
	return errors.Join(errs...)
}

// take makes room for n bytes of pixels. Nothing of the slot is on its way.
func (e *easel) take(c *cuda.Ctx, n int) error {
	if n <= e.room {
		return nil
	}
	if e.pixels.host != nil {
		old := e.pixels
		e.pixels, e.room = buffer{}, 0
		if err := old.close(c); err != nil {
			return err
		}
	}
	b, err := newBuffer(c, int64(n))
	if err == nil {
		e.pixels, e.room = b, n
	}
	return err
}

// copyPictures brings the pictures of a batch to the device, with a table of where each of them is, and fills the
// bucket with zeros.
func (b *batch) copyPictures(r *ring, to *buffer, used, all int64) error {
	c, e, p := r.config.Context, &b.slot.easel, b.pictures
	if err := e.take(c, len(p.pixels)); err != nil {
		return err
	}
	sources := make([]preprocess.Source, b.rows)
	one := len(p.pixels) / b.rows
	for i := range sources {
		sources[i] = preprocess.Source{
			At:   e.pixels.device + cuda.DevicePtr(i*one),
			Part: preprocess.Part{Size: p.size, Stride: 3 * p.size.Width},
		}
	}
	table := e.table.host.Bytes()[:preprocess.TableSize(b.rows)]
	if err := preprocess.Table(table, sources, r.config.pictureSize()); err != nil {
		return err
	}
	if c.Integrated() {
		copy(e.pixels.host.Bytes(), p.pixels)
		clear(to.host.Bytes()[used:all])
		return nil
	}
	from, at := b.pins.find(p.pixels)
	if from == nil {
		copy(e.pixels.host.Bytes(), p.pixels)
		from, at = e.pixels.host, 0
	}
	err := errors.Join(r.in.MemcpyHtoDAsync(e.pixels.device, from, at, int64(len(p.pixels))),
		r.in.MemcpyHtoDAsync(e.table.device, e.table.host, 0, int64(len(table))))
	if err == nil && all > used {
		err = r.in.MemsetD8Async(to.device+cuda.DevicePtr(used), 0, all-used)
	}
	return err
}

// pictureSize is that of the planes.
func (c *ringConfig) pictureSize() preprocess.Size {
	row := c.Inputs[c.Picture].row
	return preprocess.Size{Width: int(row[2]), Height: int(row[1])}
}

// paint begins to make the input of the pictures, on the compute stream: one launch for as many rows as have the same
// arithmetic.
func (b *batch) paint(r *ring) error {
	plan, to := &r.config.Inputs[r.config.Picture], b.slot.inputs[r.config.Picture].device
	normals := b.pictures.normals
	for first := 0; first < b.rows; {
		n := 1
		for first+n < b.rows && normals[first+n] == normals[first] {
			n++
		}
		table := b.slot.easel.table.device + cuda.DevicePtr(preprocess.TableSize(first))
		if err := r.config.Kernel.Run(r.compute, table, n, to+cuda.DevicePtr(plan.size*int64(first)), plan.kind,
			r.config.pictureSize(), normals[first]); err != nil {
			return err
		}
		first += n
	}
	return nil
}
