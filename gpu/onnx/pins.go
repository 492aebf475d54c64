package onnx

import (
	"errors"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise/gpu/cuda"
)

// pins are the pieces of memory that a device reads and writes by itself.
type pins struct {
	ctx *cuda.Ctx

	mu   sync.RWMutex
	list []*cuda.Pinned
	idle []*cuda.Pinned // of alloc, to be used again
	kept int64          // bytes of idle
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

func (p *pins) add(piece *cuda.Pinned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, piece)
}

// register pins memory of the operating system.
func (p *pins) register(memory []byte) (unpin func(), err error) {
	piece, err := p.ctx.MemHostRegister(memory)
	if err != nil {
		return nil, err
	}
	p.add(piece)
	return func() {
		p.remove(piece)
		_ = piece.Close() // a device that is lost says so at the next run
	}, nil
}

func (p *pins) remove(piece *cuda.Pinned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = slices.DeleteFunc(p.list, func(q *cuda.Pinned) bool { return q == piece })
}

// maxKept bounds the bytes of pinned memory that are kept to be used again.
const maxKept = 256 << 20

// alloc returns pinned memory. Allocating it is slow, so released memory is kept.
func (p *pins) alloc(n int) (data []byte, free func(), err error) {
	piece := p.reuse(n)
	if piece == nil {
		if piece, err = p.ctx.MemHostAlloc(int64(max(n, 1))); err != nil {
			return nil, nil, err
		}
		p.add(piece)
	}
	return piece.Bytes()[:n:n], func() { p.giveBack(piece) }, nil
}

// reuse takes the smallest idle piece that is large enough and at most twice as large.
func (p *pins) reuse(n int) *cuda.Pinned {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for i, piece := range p.idle {
		size := len(piece.Bytes())
		if size >= n && size <= 2*n && (best < 0 || size < len(p.idle[best].Bytes())) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	piece := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	p.kept -= int64(len(piece.Bytes()))
	return piece
}

func (p *pins) giveBack(piece *cuda.Pinned) {
	p.mu.Lock()
	size := int64(len(piece.Bytes()))
	keep := p.kept+size <= maxKept
	if keep {
		p.idle = append(p.idle, piece)
		p.kept += size
	}
	p.mu.Unlock()
	if !keep {
		p.remove(piece)
		_ = piece.Close() // a device that is lost says so at the next run
	}
}

// close frees the idle memory. None is in use or registered any more.
func (p *pins) close() error {
	var errs []error
	for _, piece := range p.idle {
		errs = append(errs, piece.Close())
	}
	return errors.Join(errs...)
}
