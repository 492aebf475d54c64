package sdk

import (
	"bytes"
	"context"
	"sync"

	"github.com/edgewise-ai/edgewise"
)

// box answers requests with what its function makes of them, and keeps them.
type box struct {
	answer func(*edgewise.Request) ([]edgewise.Tensor, error)

	mu       sync.Mutex // guards requests
	requests []edgewise.Request
}

func (b *box) Infer(_ context.Context, request *edgewise.Request) (*edgewise.Response, error) {
	kept := *request
	kept.Inputs = nil
	for _, t := range request.Inputs {
		t.Data = bytes.Clone(t.Data)
		kept.Inputs = append(kept.Inputs, t)
	}
	b.mu.Lock()
	b.requests = append(b.requests, kept)
	b.mu.Unlock()
	outputs, err := b.answer(request)
	if err != nil {
		return nil, err
	}
	return &edgewise.Response{Model: request.Model, Outputs: outputs}, nil
}

// renamed is the tensor under another name.
func renamed(t edgewise.Tensor, name string) edgewise.Tensor {
	t.Name = name
	return t
}
