package sched

import (
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
)

// doubler is an instance that answers each FP32 input with its double, when it is let.
type doubler struct {
	gate    chan struct{} // one token lets one run through; nil: all
	fail    error
	panics  bool
	running atomic.Int32
	most    atomic.Int32 // runs at the same time
	inUse   atomic.Int32 // results not yet freed
	closed  atomic.Bool
}

func (d *doubler) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	if n := d.running.Add(1); n > d.most.Load() {
		d.most.Store(n)
	}
	defer d.running.Add(-1)
	if d.gate != nil {
		<-d.gate
	}
	switch {
	case d.panics:
		panic("broken instance")
	case d.fail != nil:
		return nil, d.fail
	}
	d.inUse.Add(1)
	out := edgewise.Tensor{Name: want[0], Type: edgewise.FP32, Shape: in[0].Shape, Data: make([]byte, len(in[0].Data))}
	for i := 0; i < len(out.Data); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(in[0].Data[i:]))
		binary.LittleEndian.PutUint32(out.Data[i:], math.Float32bits(2*x))
	}
	return &edgewise.Result{Outputs: []edgewise.Tensor{out}, Free: func() { d.inUse.Add(-1) }}, nil
}

func (d *doubler) Close() error {
	if d.inUse.Load() != 0 {
		panic("closed with results in use")
	}
	d.closed.Store(true)
	return nil
}

func model() *edgewise.Model {
	return &edgewise.Model{
		Name: "double", MaxBatchSize: 4,
		Input:  []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{2}}},
		Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32, Dims: edgewise.Shape{2}}},
	}
}

func schedulerOf(i edgewise.Instance, m *edgewise.Model, c Config) *Scheduler {
	c.Logger = slog.New(slog.DiscardHandler)
	return New(&edgewise.Version{ID: edgewise.ModelID{Name: m.Name, Version: 3}, Model: m}, i, c)
}

func scheduler(d *doubler, m *edgewise.Model, c Config) *Scheduler {
	return schedulerOf(d, m, c)
}

func floats(values ...float32) []byte {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return data
}

func request(values ...float32) *edgewise.Request {
	return &edgewise.Request{ID: "r", Inputs: []edgewise.Tensor{
		{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{int64(len(values) / 2), 2}, Data: floats(values...)},
	}}
}
