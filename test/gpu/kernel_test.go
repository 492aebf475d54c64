package gpu

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/preprocess"
	"github.com/edgewise-ai/edgewise/picture"
)

// pictures has the driver compile the kernel for pictures and compares the tensors that it makes with the CPU's, bit for
// bit.
func (r *report) pictures(s settings) (err error) {
	c, err := open(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	stream, err := c.MakeStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	kernel, err := preprocess.Load(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kernel.Close()) }()
	p := edgewise.Picture{
		Stride: 3 * 641, X: 3, Y: 5, Width: 600, Height: 400, Mean: [3]float32{123.675, 116.28, 103.53},
		Scale: [3]float32{1 / 58.395, 1 / 57.12, 1 / 57.375},
	}
	for i := range p.Stride * 420 {
		p.Pixels = append(p.Pixels, byte(i*i>>7+i))
	}
	for _, kind := range []edgewise.DataType{edgewise.FP32, edgewise.FP16} {
		want := make([]byte, 3*224*224*kind.Size())
		picture.Planes(&p, want, kind, 224, 224, func() {})
		got, err := planes(c, stream, kernel, &p, kind, int64(len(want)))
		if err != nil {
			return err
		}
		l := line{Name: fmt.Sprintf("kernel for pictures, %v: bit for bit as on the CPU", kind)}
		if !bytes.Equal(got, want) {
			l.Failed = "it differs"
		}
		r.add(l)
	}
	return nil
}

// planes makes the tensor of a picture on the device, 224 pixels wide and high.
func planes(
	c *cuda.Ctx, on *cuda.Stream, k *preprocess.Kernel, p *edgewise.Picture, kind edgewise.DataType, size int64,
) ([]byte, error) {
	out := preprocess.Size{Width: 224, Height: 224}
	table, result := make([]byte, preprocess.TableSize(1)), make([]byte, size)
	var at [3]cuda.DevicePtr // pictures, table, tensor
	var errs []error
	for i, n := range []int{len(p.Pixels), len(table), len(result)} {
		var err error
		at[i], err = c.MemAlloc(int64(n))
		errs = append(errs, err)
	}
	part := preprocess.Part{X: p.X, Y: p.Y, Size: preprocess.Size{Width: p.Width, Height: p.Height}, Stride: p.Stride}
	errs = append(errs, preprocess.Table(table, []preprocess.Source{{At: at[0], Part: part}}, out))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	err := errors.Join(
		c.MemcpyHtoD(at[0], p.Pixels), c.MemcpyHtoD(at[1], table),
		k.Run(on, at[1], 1, at[2], kind, out, preprocess.Normal{Mean: p.Mean, Scale: p.Scale}), on.Synchronize(),
		c.MemcpyDtoH(result, at[2]),
	)
	for _, m := range at {
		err = errors.Join(err, c.MemFree(m))
	}
	return result, err
}
