package onnx

import (
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise/gpu/cuda"
)

// pins are the pieces of memory that a device reads and writes by itself.
type pins struct {
	ctx *cuda.Ctx

	mu   sync.RWMutex
	list []*cuda.Pinned
}

// find returns the piece in which data stands, and where in it; nil when it stands in none.
func (p *pins) find(data []byte) (*cuda.Pinned, int64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, piece := range p.list {
		if at, ok := piece.Contains(data); ok {
			return piece, at
		}
	}
	return nil, 0
}

// register pins memory of the operating system.
func (p *pins) register(memory []byte) (unpin func(), err error) {
	piece, err := p.ctx.MemHostRegister(memory)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, piece)
	return func() {
		p.mu.Lock()
		p.list = slices.DeleteFunc(p.list, func(q *cuda.Pinned) bool { return q == piece })
		p.mu.Unlock()
		_ = piece.Close() // a device that is lost says so at the next run
	}, nil
}
