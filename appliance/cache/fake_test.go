package cache

import (
	"context"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
)

// counter is a version that answers each request with its only input and the number of the run, in memory that it takes
// back when the answer is released.
type counter struct {
	runs   atomic.Int64
	inUse  atomic.Int64
	closed atomic.Bool
	before func(context.Context, *edgewise.Request) error // called in each run, unless nil
}

func (c *counter) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	n := c.runs.Add(1)
	if c.before != nil {
		if err := c.before(ctx, req); err != nil {
			return nil, err
		}
	}
	data := append([]byte{byte(n)}, req.Inputs[0].Data...)
	shape := edgewise.Shape{int64(len(data))}
	c.inUse.Add(1)
	return &edgewise.Response{
		ID: req.ID, Model: edgewise.ModelID{Name: "m", Version: 1},
		Outputs: []edgewise.Tensor{{Name: "out", Type: edgewise.Uint8, Shape: shape, Data: data}},
		Free: func() {
			clear(data)
			clear(shape)
			c.inUse.Add(-1)
		},
	}, nil
}

func (c *counter) Statistics() edgewise.Statistics {
	n := uint64(c.runs.Load())
	return edgewise.Statistics{InferenceCount: n, Success: edgewise.Duration{Count: n}, Queue: edgewise.Duration{Count: n}}
}

func (c *counter) Close() error {
	c.closed.Store(true)
	return nil
}

func version(b *edgewise.DynamicBatching) *edgewise.Version {
	return &edgewise.Version{
		ID:    edgewise.ModelID{Name: "m", Version: 1},
		Model: &edgewise.Model{Name: "m", DynamicBatching: b},
	}
}

func request(data string) *edgewise.Request {
	return &edgewise.Request{Inputs: []edgewise.Tensor{
		{Name: "in", Type: edgewise.Uint8, Shape: edgewise.Shape{int64(len(data))}, Data: []byte(data)},
	}}
}
