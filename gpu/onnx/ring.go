package onnx

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/cuda"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/gpu/preprocess"
)

// ring runs batches of one session on a device, several at a time: while one is computed, the next is copied in and the
// last one out, on a stream each. Each batch has a slot of its own, with its own memory on both sides, which stays
// where it is from load to close.
//
//	in stream       copy A | copy B | ...
//	compute stream         | run A  | run B | ...
//	out stream                      | copy A| ...
//
// A batch is computed in the smallest bucket that it fits in; the rest of the bucket is zeros. Events order the
// streams, and one mutex the calls that fill them, so that the streams see batches in one order.
type ring struct {
	config           ringConfig
	in, compute, out *cuda.Stream
	slots            []*slot

	submit sync.Mutex // held while a batch is put on the streams
}

// ringConfig says what a ring runs.
type ringConfig struct {
	shapes
	Context *cuda.Ctx
	Slots   int
	Kernel  *preprocess.Kernel // makes the input Picture of pictures; nil: runs have none
	Picture int                // number of that input
	// Bind makes a run over memory of the device, which it puts on the compute stream. id tells bindings apart, from 1.
	Bind func(compute *cuda.Stream, inputs, outputs []ort.Bound, id int) (bound, error)
}

// bound is a run over fixed memory. Run returns when the work is on the stream.
type bound interface {
	Run() error
	Close()
}

// plan is a tensor of a fixed size for each row.
type plan struct {
	name string
	kind edgewise.DataType
	row  edgewise.Shape // without the batch dimension
	size int64          // bytes of a row
}

func (p *plan) shape(rows int, batched bool) edgewise.Shape {
	if !batched {
		return p.row
	}
	return append(edgewise.Shape{int64(rows)}, p.row...)
}

// buffer is the memory of one tensor of a slot, for the largest bucket.
type buffer struct {
	host   *cuda.Pinned
	device cuda.DevicePtr // of an integrated device that of host
}

// slot is what one batch in flight takes.
type slot struct {
	ring                     *ring
	inputs, outputs          []buffer
	bindings                 []bound // one for each bucket
	easel                    easel
	copied, computed, landed *cuda.Event
}

func newRing(c ringConfig) (r *ring, err error) {
	r = &ring{config: c}
	defer func() {
		if err != nil {
			r.unbind()
			err = errors.Join(err, r.close())
		}
	}()
	for _, s := range []**cuda.Stream{&r.in, &r.compute, &r.out} {
		if *s, err = c.Context.MakeStream(); err != nil {
			return r, err
		}
	}
	for range c.Slots {
		s := &slot{ring: r}
		r.slots = append(r.slots, s) // also when it is not complete: close takes what there is
		if err = s.fill(len(r.slots)); err != nil {
			return r, err
		}
	}
	return r, nil
}

// fill makes what a slot has.
func (s *slot) fill(number int) (err error) {
	c := &s.ring.config
	for _, e := range []**cuda.Event{&s.copied, &s.computed, &s.landed} {
		if *e, err = c.Context.MakeEvent(); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		plans   []plan
		buffers *[]buffer
	}{{c.Inputs, &s.inputs}, {c.Outputs, &s.outputs}} {
		for i := range list.plans {
			b, err := newBuffer(c.Context, list.plans[i].size*int64(c.most()))
			if err != nil {
				return err
			}
			*list.buffers = append(*list.buffers, b)
		}
	}
	if c.Kernel != nil {
		if err := s.easel.open(c.Context, c.most()); err != nil {
			return err
		}
	}
	for i, rows := range c.Buckets {
		b, err := c.Bind(s.ring.compute, c.bounds(c.Inputs, s.inputs, rows), c.bounds(c.Outputs, s.outputs, rows),
			(number-1)*len(c.Buckets)+i+1)
		if err != nil {
			return err
		}
		s.bindings = append(s.bindings, b)
	}
	return nil
}

// bounds describes the buffers for a bucket.
func (c *ringConfig) bounds(plans []plan, buffers []buffer, rows int) []ort.Bound {
	list := make([]ort.Bound, len(plans))
	for i := range plans {
		p := &plans[i]
		list[i] = ort.Bound{
			Name: p.name, Type: p.kind, Shape: p.shape(rows, c.Batched), Address: uintptr(buffers[i].device),
			Size: p.size * int64(rows),
		}
	}
	return list
}

// newBuffer takes memory on both sides; an integrated device needs it once.
func newBuffer(c *cuda.Ctx, n int64) (b buffer, err error) {
	if b.host, err = c.MemHostAlloc(n); err != nil {
		return b, err
	}
	if c.Integrated() {
		b.device, err = b.host.DevicePtr()
	} else {
		b.device, err = c.MemAlloc(n)
	}
	if err != nil {
		err = errors.Join(err, b.host.Close())
	}
	return b, err
}

func (b *buffer) close(c *cuda.Ctx) error {
	var err error
	if !c.Integrated() {
		err = c.MemFree(b.device)
	}
	return errors.Join(err, b.host.Close())
}

// unbind gives back what belongs to the session, which is closed after it and before the streams that it works on.
func (r *ring) unbind() {
	for _, s := range r.slots {
		for _, b := range s.bindings {
			b.Close()
		}
		s.bindings = nil
	}
}

// close gives everything else back. No batch is in flight.
func (r *ring) close() error {
	var errs []error
	for _, s := range r.slots {
		for _, list := range [][]buffer{s.inputs, s.outputs} {
			for i := range list {
				errs = append(errs, list[i].close(r.config.Context))
			}
		}
		errs = append(errs, s.easel.close(r.config.Context))
		for _, e := range []*cuda.Event{s.copied, s.computed, s.landed} {
			if e != nil {
				errs = append(errs, e.Close())
			}
		}
	}
	for _, s := range []*cuda.Stream{r.in, r.compute, r.out} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// batch is one run of a ring.
type batch struct {
	slot     *slot
	bucket   int
	rows     int
	in       []edgewise.Tensor // in the order of the plans
	want     []int             // plans of the outputs
	pins     *pins
	pictures *pictures // in place of the input Picture; nil: it is there
	into     [][]byte  // where the outputs are wanted, as many as want; nil: in the slot
}

// begin puts a batch on the streams. When it fails, nothing of the batch is on its way any more.
func (r *ring) begin(b *batch) error {
	r.submit.Lock()
	defer r.submit.Unlock()
	err := b.copyIn(r)
	if err == nil {
		err = b.compute(r)
	}
	if err == nil {
		err = b.copyOut(r)
	}
	if err != nil {
		r.settle()
	}
	return err
}

// settle waits until nothing is on its way any more, after a batch has failed: nobody may read its inputs or write to
// its outputs after that. The error of the batch says more than those of the waits.
func (r *ring) settle() {
	for _, s := range []*cuda.Stream{r.in, r.compute, r.out} {
		_ = s.Synchronize()
	}
}

func (b *batch) copyIn(r *ring) error {
	for i := range r.config.Inputs {
		size := r.config.Inputs[i].size
		used, all := size*int64(b.rows), size*int64(r.config.Buckets[b.bucket])
		if b.pictures != nil && i == r.config.Picture {
			if err := b.copyPictures(r, &b.slot.inputs[i], used, all); err != nil {
				return err
			}
			continue
		}
		if err := b.copyTensor(r, &b.slot.inputs[i], b.in[i].Data, used, all); err != nil {
			return err
		}
	}
	return errors.Join(b.slot.copied.Record(r.in), r.compute.WaitEvent(b.slot.copied))
}

// copyTensor copies one input, out of where it stands when that is pinned, and fills the bucket with zeros.
func (b *batch) copyTensor(r *ring, to *buffer, data []byte, used, all int64) error {
	if r.config.Context.Integrated() {
		copy(to.host.Bytes(), data)
		clear(to.host.Bytes()[used:all])
		return nil
	}
	from, at := b.pins.find(data)
	if from == nil && used > 0 {
		copy(to.host.Bytes(), data)
		from, at = to.host, 0
	}
	var err error
	if used > 0 {
		err = r.in.MemcpyHtoDAsync(to.device, from, at, used)
	}
	if err == nil && all > used {
		err = r.in.MemsetD8Async(to.device+cuda.DevicePtr(used), 0, all-used)
	}
	return err
}

func (b *batch) compute(r *ring) error {
	if b.pictures != nil {
		if err := b.paint(r); err != nil {
			return err
		}
	}
	if err := b.slot.bindings[b.bucket].Run(); err != nil {
		return err
	}
	return errors.Join(b.slot.computed.Record(r.compute), r.out.WaitEvent(b.slot.computed))
}

func (b *batch) copyOut(r *ring) error {
	for i, p := range b.want {
		n := r.config.Outputs[p].size * int64(b.rows)
		if r.config.Context.Integrated() || n == 0 {
			continue
		}
		to, at := b.slot.outputs[p].host, int64(0)
		if b.into != nil {
			if pinned, offset := b.pins.find(b.into[i]); pinned != nil {
				to, at = pinned, offset
			}
		}
		if err := r.out.MemcpyDtoHAsync(to, at, b.slot.outputs[p].device, n); err != nil {
			return err
		}
	}
	return b.slot.landed.Record(r.out)
}

// finish waits for a batch and returns its outputs. Where the batch wants them elsewhere they are there.
func (r *ring) finish(b *batch) ([]edgewise.Tensor, error) {
	if err := b.slot.landed.Synchronize(); err != nil {
		r.settle()
		return nil, err
	}
	outputs := make([]edgewise.Tensor, len(b.want))
	for i, index := range b.want {
		p := &r.config.Outputs[index]
		n := p.size * int64(b.rows)
		data := b.slot.outputs[index].host.Bytes()[:n]
		if b.into != nil && int64(len(b.into[i])) == n {
			if pinned, _ := b.pins.find(b.into[i]); pinned == nil || r.config.Context.Integrated() {
				copy(b.into[i], data)
			}
			data = b.into[i]
		}
		outputs[i] = edgewise.Tensor{Name: p.name, Type: p.kind, Shape: p.shape(b.rows, r.config.Batched), Data: data}
	}
	return outputs, nil
}

// run runs one batch in a slot that the caller holds.
func (r *ring) run(ctx context.Context, b *batch) (*edgewise.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	start := time.Now()
	if err := r.begin(b); err != nil {
		return nil, err
	}
	begun := time.Now()
	outputs, err := r.finish(b)
	if err != nil {
		return nil, err
	}
	return &edgewise.Result{Outputs: outputs, Input: begun.Sub(start), Infer: time.Since(begun)}, nil
}
