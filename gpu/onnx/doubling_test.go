package onnx

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

const scalePTX = ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry scale(\n.param .u64 a\n)\n{\nret;\n}\n"

// launched is a run that is one kernel on the compute stream, which doubles numbers.
type launched struct {
	kernel  *cuda.Function
	compute *cuda.Stream
	in, out uintptr
	n       int
}

func (l launched) Run() error {
	one := cuda.Dim3{X: 1, Y: 1, Z: 1}
	return l.kernel.Launch(one, one, 0, l.compute, uint64(l.in), uint64(l.out), uint64(l.n), uint64(math.Float32bits(2)))
}

func (launched) Close() {}

// compiled is in the place of the session whose code runs: it is closed with the instance.
type compiled struct {
	edgewise.Instance
	module *cuda.Module
}

func (c compiled) Close() error { return c.module.Close() }

// doubling makes an instance on a context that doubles rows of n numbers. It owns the context from then on, also when
// it fails.
func doubling(ctx *cuda.Ctx, n int, buckets []int, slots int) (*accelerated, error) {
	l := &gpuLoad{ctx: ctx}
	a, err := l.doubling(n, buckets, slots)
	if err != nil {
		return nil, errors.Join(err, l.undo())
	}
	return a, nil
}

func (l *gpuLoad) doubling(n int, buckets []int, slots int) (*accelerated, error) {
	module, err := l.ctx.LoadData(scalePTX)
	if err != nil {
		return nil, err
	}
	l.sessions = append(l.sessions, compiled{module: module})
	kernel, err := module.Function("scale")
	if err != nil {
		return nil, err
	}
	p := func(name string) []plan {
		return []plan{{name, edgewise.FP32, edgewise.Shape{int64(n)}, 4 * int64(n)}}
	}
	r, err := newRing(ringConfig{
		Context: l.ctx, shapes: shapes{Inputs: p("x"), Outputs: p("y"), Buckets: buckets, Batched: true}, Slots: slots,
		Bind: func(compute *cuda.Stream, inputs, outputs []ort.Bound, _ int) (bound, error) {
			return launched{kernel, compute, inputs[0].Address, outputs[0].Address, n * int(inputs[0].Shape[0])}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	l.rings = append(l.rings, r)
	a := newAccelerated(edgewise.ModelID{Name: "double", Version: 1}, edgewise.Device{Kind: edgewise.GPU}, l.ctx,
		l.sessions, l.rings)
	a.AllowPadding()
	return a, a.warm(context.Background(), false)
}

// pinned maps memory and pins it.
func pinned(a *accelerated, n int) (data []byte, free func(), err error) {
	if data, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		return nil, nil, err
	}
	unpin, err := a.Pin(data)
	if err != nil {
		return nil, nil, errors.Join(err, unix.Munmap(data))
	}
	return data, func() {
		unpin()
		_ = unix.Munmap(data)
	}, nil
}

// numbers makes a batch of rows with n numbers each, all of them v, in memory that the instance has pinned, or in other
// memory when it pins none.
func numbers(a *accelerated, rows, n int, v float32) (in edgewise.Tensor, free func()) {
	data, free, err := pinned(a, 4*n*rows)
	if err != nil {
		data, free = make([]byte, 4*n*rows), func() {}
	}
	for i := range n * rows {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{int64(rows), int64(n)}, Data: data}, free
}

// doubled looks that an answer is that of numbers with v.
func doubled(t testing.TB, data []byte, v float32) {
	t.Helper()
	for i := 0; i < len(data); i += 4 {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(data[i:])); got != 2*v {
			t.Errorf("element %d: %v, want %v", i/4, got, 2*v)
			return
		}
	}
}
