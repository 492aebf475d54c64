package onnx

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/aligned"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/preprocess"
)

// accelerated is a version on a GPU: one or several sessions of it. Batches whose sizes are known beforehand go through
// rings where the device has streams; others take the plain way, in which ONNX Runtime itself copies in, runs, copies
// out and waits. There too they are filled up to a bucket when their sizes are known.
type accelerated struct {
	version  edgewise.ModelID
	device   edgewise.Device
	ctx      *cuda.Ctx // nil on a Vulkan device
	pins     *pins
	sessions []edgewise.Instance
	plain    chan edgewise.Instance // idle
	rings    []*ring
	slots    chan *slot // idle; nil: there are no rings
	shapes   *shapes    // nil: they are not known
	picture  string     // the input that can be made of pictures; empty: none
	kernel   *preprocess.Kernel
	pads     atomic.Bool // batches may be computed with rows of zeros behind them
}

var _ edgewise.Instance = (*accelerated)(nil)

// newAccelerated puts sessions and their rings, of which there are as many or none, behind one instance, which owns
// them and the context.
func newAccelerated(v edgewise.ModelID, on edgewise.Device, ctx *cuda.Ctx, sessions []edgewise.Instance,
	rings []*ring,
) *accelerated {
	a := &accelerated{
		version: v, device: on, ctx: ctx, pins: &pins{ctx: ctx}, sessions: sessions,
		plain: make(chan edgewise.Instance, len(sessions)), rings: rings,
	}
	for _, s := range sessions {
		a.plain <- s
	}
	if len(rings) > 0 {
		a.shapes = &rings[0].config.shapes
		a.slots = make(chan *slot, len(rings)*len(rings[0].slots))
		for i := range rings[0].slots { // in turn, so that batches go to all rings
			for _, r := range rings {
				a.slots <- r.slots[i]
			}
		}
	}
	return a
}

// AllowPadding lets batches be computed in the next larger bucket. Without it only those that fill one go through
// rings.
func (a *accelerated) AllowPadding() { a.pads.Store(true) }

// Pin pins memory that others have made, so that it is copied from and to as it stands. Error: Unsupported on a Vulkan
// device.
func (a *accelerated) Pin(memory []byte) (unpin func(), err error) {
	if a.ctx == nil {
		return nil, edgewise.Errorf("onnx.Pin", edgewise.Unsupported, "%v copies from any memory", a.device)
	}
	return a.pins.register(memory)
}

// Run runs a batch. Outputs stand in pinned memory until Result.Free. When the memory of options.Place is pinned, the
// device itself writes there.
func (a *accelerated) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	b, ok := a.batch(in, want)
	if !ok && a.picturesAmong(in) {
		return nil, edgewise.Errorf("onnx.Run", edgewise.Unsupported, "model %v: %v makes no tensors of such pictures",
			a.version, a.device)
	}
	var result *edgewise.Result
	var err error
	switch {
	case ok && a.slots != nil:
		result, err = a.ring(ctx, b, options.Place)
	case ok && b.rows < a.shapes.Buckets[b.bucket]:
		result, err = a.padded(ctx, b, want)
	default:
		result, err = a.direct(ctx, in, want, options)
	}
	if err != nil {
		return nil, a.judge(err)
	}
	return result, nil
}

// picturesAmong tells whether a run has pictures in place of an input.
func (a *accelerated) picturesAmong(in []edgewise.Tensor) bool {
	return a.picture != "" && slices.ContainsFunc(in,
		func(t edgewise.Tensor) bool { return t.Name == NormalInput(a.picture) })
}

// batch tells whether a run fits into a ring, and how.
func (a *accelerated) batch(in []edgewise.Tensor, want []string) (*batch, bool) {
	c := a.shapes
	if c == nil {
		return nil, false
	}
	b := &batch{rows: 1, pins: a.pins, in: make([]edgewise.Tensor, len(c.Inputs))}
	if c.Batched {
		if len(in) == 0 || len(in[0].Shape) == 0 {
			return nil, false
		}
		b.rows = int(in[0].Shape[0])
	}
	extra, picture := 0, -1
	if a.slots != nil && a.rings[0].config.Kernel != nil && b.rows > 0 {
		at := a.rings[0].config.Picture
		if b.pictures = picturesOf(in, c.Inputs[at].name, b.rows); b.pictures != nil {
			extra, picture = 1, at
		}
	}
	if len(in) != len(c.Inputs)+extra {
		return nil, false
	}
	for i := range c.Inputs {
		if i == picture {
			continue
		}
		p := &c.Inputs[i]
		at := slices.IndexFunc(in, func(t edgewise.Tensor) bool { return t.Name == p.name })
		if at < 0 || in[at].Type != p.kind || !in[at].Shape.Equal(p.shape(b.rows, c.Batched)) ||
			int64(len(in[at].Data)) != p.size*int64(b.rows) {
			return nil, false
		}
		b.in[i] = in[at]
	}
	for _, name := range want {
		at := slices.IndexFunc(c.Outputs, func(p plan) bool { return p.name == name })
		if at < 0 {
			return nil, false
		}
		b.want = append(b.want, at)
	}
	b.bucket = c.bucket(b.rows)
	return b, b.bucket >= 0 && b.rows > 0 && (b.rows == c.Buckets[b.bucket] || a.pads.Load())
}

// ring runs a batch in the next slot that is idle.
func (a *accelerated) ring(ctx context.Context, b *batch, place func(sizes []int64) [][]byte) (*edgewise.Result,
	error,
) {
	select {
	case b.slot = <-a.slots:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r := b.slot.ring
	if place != nil {
		sizes := make([]int64, len(b.want))
		for i, p := range b.want {
			sizes[i] = r.config.Outputs[p].size * int64(b.rows)
		}
		if b.into = place(sizes); len(b.into) != len(sizes) {
			b.into = nil
		}
	}
	result, err := r.run(ctx, b)
	if err != nil {
		a.slots <- b.slot
		return nil, err
	}
	result.Free = func() { a.slots <- b.slot }
	return result, nil
}

// padded runs a batch the plain way in its bucket, the rest of which is zeros.
func (a *accelerated) padded(ctx context.Context, b *batch, want []string) (*edgewise.Result, error) {
	rows := a.shapes.Buckets[b.bucket]
	result, err := a.direct(ctx, a.shapes.padded(b.in, rows), want, edgewise.RunOptions{})
	if err != nil {
		return nil, err
	}
	for i, index := range b.want {
		p, out := &a.shapes.Outputs[index], &result.Outputs[i]
		if int64(len(out.Data)) != p.size*int64(rows) {
			result.Free()
			return nil, edgewise.Errorf("onnx.Run", edgewise.Internal, "model %v: output %q has %d bytes for %d rows of %d",
				a.version, p.name, len(out.Data), rows, p.size)
		}
		out.Data, out.Shape = out.Data[:p.size*int64(b.rows)], p.shape(b.rows, true)
	}
	return result, nil
}

// padded returns inputs, in the order of the plans, with so many rows; what in does not have is zeros.
func (s *shapes) padded(in []edgewise.Tensor, rows int) []edgewise.Tensor {
	list := make([]edgewise.Tensor, len(s.Inputs))
	for i := range s.Inputs {
		p := &s.Inputs[i]
		data := aligned.Bytes(int(p.size)*rows, int(p.kind.Size()))
		if in != nil {
			copy(data, in[i].Data)
		}
		list[i] = edgewise.Tensor{Name: p.name, Type: p.kind, Shape: p.shape(rows, s.Batched), Data: data}
	}
	return list
}

// direct runs the plain way, one run of a session at a time.
func (a *accelerated) direct(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	var s edgewise.Instance
	select {
	case s = <-a.plain:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { a.plain <- s }()
	return s.Run(ctx, in, want, options)
}

// judge looks whether the device still works after a run has failed: an error that the runtime words may be one that no
// later run survives.
func (a *accelerated) judge(err error) error {
	if edgewise.DeviceLost(err) {
		return a.lost(err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if a.ctx == nil {
		return err
	}
	if state := a.ctx.Synchronize(); edgewise.DeviceLost(state) {
		return a.lost(errors.Join(state, err))
	}
	return err
}

func (a *accelerated) lost(err error) error {
	return edgewise.Errorf("onnx.Run", edgewise.Unavailable, "model %v: %v has stopped working and is started again: %w",
		a.version, a.device, err)
}

// Close gives everything back.
func (a *accelerated) Close() error {
	return release(a.rings, a.sessions, a.kernel, a.ctx)
}

// release gives back what an instance has, in the order in which it leans on each other. kernel and c may be nil.
func release(rings []*ring, sessions []edgewise.Instance, kernel *preprocess.Kernel, c *cuda.Ctx) error {
	var errs []error
	for _, r := range rings {
		r.unbind()
	}
	for _, s := range sessions {
		errs = append(errs, s.Close())
	}
	for _, r := range rings {
		errs = append(errs, r.close())
	}
	if kernel != nil {
		errs = append(errs, kernel.Close())
	}
	if c != nil {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

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
