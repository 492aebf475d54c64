// Package preprocess makes tensors of pictures on a GPU: a batch of pictures of any sizes, as bytes, becomes one tensor
// of planes, cut out, scaled and normalised by one kernel. The result is that of picture.Planes, bit for bit:
// both do the same roundings in the same order.
package preprocess

import (
	_ "embed" // the kernel
	"encoding/binary"
	"math"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/picture"
)

//go:embed kernel/preprocess.ptx
var ptx string

// Bounds of a batch.
const (
	MaxPictures = 65535 // the blocks of a grid in its second dimension
	MaxSide     = picture.MaxSide
)

// Size is that of a picture or of the tensor, in pixels.
type Size struct{ Width, Height int }

func (s Size) ok() bool {
	return s.Width > 0 && s.Height > 0 && s.Width <= MaxSide && s.Height <= MaxSide
}

// Part is what is wanted of a picture: Size pixels from (X, Y) on. Stride is the bytes from row to row of the whole
// picture, whose pixels are three bytes.
type Part struct {
	X, Y   int
	Size   Size
	Stride int
}

// Normal is the arithmetic for each of the three channels: (value - Mean) * Scale, for values from 0 to 255.
type Normal struct{ Mean, Scale [3]float32 }

// descriptor is the size of a Picture of the kernel.
const descriptor = 32

// Source is a picture in a device's memory.
type Source struct {
	At   cuda.DevicePtr // of the whole picture's first pixel
	Part Part
}

// Kernel is the kernel, loaded into a context. It is safe for concurrent use.
type Kernel struct {
	module   *cuda.Module
	f32, f16 *cuda.Function
}

// Load compiles the kernel for the context's device.
func Load(c *cuda.Ctx) (*Kernel, error) {
	m, err := c.LoadData(ptx)
	if err != nil {
		return nil, err
	}
	k := &Kernel{module: m}
	if k.f32, err = m.Function("preprocess_f32"); err == nil {
		k.f16, err = m.Function("preprocess_f16")
	}
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	return k, nil
}

// Close unloads the kernel. It does not run.
func (k *Kernel) Close() error { return k.module.Close() }

// TableSize is the bytes of the table of n pictures.
func TableSize(n int) int64 { return int64(n) * descriptor }

// Table writes the descriptions of pictures, which Run reads from the device, into to, which has TableSize bytes.
// Error: Invalid.
func Table(to []byte, list []Source, out Size) error {
	if len(list) > MaxPictures || !out.ok() || int64(len(to)) != TableSize(len(list)) {
		return edgewise.Errorf("preprocess.Table", edgewise.Invalid,
			"%d pictures to %dx%d in a table of %d bytes: at most %d pictures and %d pixels a side", len(list), out.Width,
			out.Height, len(to), MaxPictures, MaxSide)
	}
	for i, s := range list {
		p := s.Part
		if !p.Size.ok() || p.X < 0 || p.Y < 0 || p.X > MaxSide || p.Y > MaxSide || 3*(p.X+p.Size.Width) > p.Stride {
			return edgewise.Errorf("preprocess.Table", edgewise.Invalid,
				"picture %d: %dx%d pixels at (%d, %d) of rows of %d bytes", i, p.Size.Width, p.Size.Height, p.X, p.Y, p.Stride)
		}
		d := to[i*descriptor : (i+1)*descriptor]
		// pixels of the part for one of the tensor
		sx, sy := float32(p.Size.Width)/float32(out.Width), float32(p.Size.Height)/float32(out.Height)
		binary.LittleEndian.PutUint64(d, uint64(s.At)+uint64(p.Y*p.Stride+3*p.X))
		for j, word := range []uint32{
			uint32(p.Stride), uint32(p.Size.Width), uint32(p.Size.Height), math.Float32bits(sx),
			math.Float32bits(sy), 0,
		} {
			binary.LittleEndian.PutUint32(d[8+4*j:], word)
		}
	}
	return nil
}

// threads of a block.
const threads = 256

// Run begins to make the tensor of n pictures on a stream: n times three planes of the size out, as kind says FP32 or
// FP16. table and to are in the device's memory.
func (k *Kernel) Run(
	on *cuda.Stream, table cuda.DevicePtr, n int, to cuda.DevicePtr, kind edgewise.DataType, out Size, normal Normal,
) error {
	f := k.f32
	switch {
	case n < 1 || n > MaxPictures || !out.ok() || kind != edgewise.FP32 && kind != edgewise.FP16:
		return edgewise.Errorf("preprocess.Run", edgewise.Invalid, "%d pictures to %v of %dx%d", n, kind, out.Width,
			out.Height)
	case kind == edgewise.FP16:
		f = k.f16
	}
	arguments := []uint64{uint64(table), uint64(to), uint64(uint32(out.Width)), uint64(uint32(out.Height))}
	for _, list := range [][3]float32{normal.Mean, normal.Scale} {
		for _, v := range list {
			arguments = append(arguments, uint64(math.Float32bits(v)))
		}
	}
	blocks := (out.Width*out.Height + threads - 1) / threads
	return f.Launch(cuda.Dim3{X: uint32(blocks), Y: uint32(n), Z: 1}, cuda.Dim3{X: threads, Y: 1, Z: 1}, 0, on,
		arguments...)
}
