package serving

import (
	"context"
	"errors"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/aligned"
)

// resident is an instance on a GPU with its share of the GPU's memory. One that is on demand can be evicted, which
// unloads it while its version stays ready: the next run loads it again and waits for that.
type resident struct {
	memory *gpuMemory
	share  *share
	load   func(context.Context) (isolated, error)

	loading sync.Mutex // held while an instance is loaded or evicted

	mu    sync.Mutex // guards what follows
	idle  *sync.Cond // holds has become 0
	now   isolated
	holds int  // runs in progress, results that are not freed, and memory of Alloc
	pads  bool // rows may be added to batches
}

var _ isolated = (*resident)(nil)

// newResident loads an instance that can be evicted.
func newResident(
	ctx context.Context, memory *gpuMemory, s *share, load func(context.Context) (isolated, error),
) (*resident, error) {
	r := &resident{memory: memory, share: s, load: load}
	r.idle = sync.NewCond(&r.mu)
	s.evict = r.evict
	if _, err := r.hold(ctx); err != nil {
		return nil, err
	}
	r.release()
	return r, nil
}

// Run runs on the instance, which is loaded when it is not.
func (r *resident) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	i, err := r.hold(ctx)
	if err != nil {
		return nil, err
	}
	result, err := i.Run(ctx, in, want, options)
	if err != nil {
		r.release()
		return nil, err
	}
	free := result.Free
	result.Free = func() {
		free()
		r.release()
	}
	return result, nil
}

// AllowPadding lets the instance add rows to batches, also when it is loaded again.
func (r *resident) AllowPadding() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pads = true; r.now != nil {
		r.now.AllowPadding()
	}
}

// Alloc returns memory of the instance, which is not evicted before free; memory of this process while there is none.
func (r *resident) Alloc(n int) (data []byte, free func(), err error) {
	i := r.take()
	if i == nil {
		return aligned.Bytes(n, bodyAlignment), func() {}, nil
	}
	data, end, err := i.Alloc(n)
	if err != nil {
		r.release()
		return nil, nil, err
	}
	return data, func() {
		end()
		r.release()
	}, nil
}

// bodyAlignment is what memory of Alloc is aligned to.
const bodyAlignment = 64

// KeptBytes is 0: memory that is kept between runs would keep the instance.
func (r *resident) KeptBytes() int { return 0 }

// AllocBody returns memory of the instance, nil while there is none.
func (r *resident) AllocBody(n int) (data []byte, free func()) {
	if i := r.take(); i != nil {
		defer r.release()
		return i.AllocBody(n)
	}
	return nil, nil
}

// OwnsBody tells whether data is memory of AllocBody.
func (r *resident) OwnsBody(data []byte) bool {
	i := r.take()
	if i == nil {
		return false
	}
	defer r.release()
	return i.OwnsBody(data)
}

// hold returns the instance, which is not evicted before release.
func (r *resident) hold(ctx context.Context) (isolated, error) {
	r.memory.touch(r.share)
	if i := r.take(); i != nil {
		return i, nil
	}
	r.loading.Lock()
	defer r.loading.Unlock()
	if i := r.take(); i != nil {
		return i, nil
	}
	if err := r.memory.take(r.share); err != nil {
		return nil, err
	}
	i, err := r.load(ctx)
	if err != nil {
		r.memory.give(r.share)
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pads {
		i.AllowPadding()
	}
	r.now = i
	r.holds++
	return i, nil
}

func (r *resident) take() isolated {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		r.holds++
	}
	return r.now
}

func (r *resident) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holds--; r.holds == 0 {
		r.idle.Broadcast()
	}
}

// evict unloads the instance when nobody uses it. One that is in use, or being loaded, stays.
func (r *resident) evict() bool {
	if !r.loading.TryLock() {
		return false
	}
	defer r.loading.Unlock()
	r.mu.Lock()
	i := r.now
	if i == nil || r.holds > 0 {
		r.mu.Unlock()
		return false
	}
	r.now = nil
	r.mu.Unlock()
	err := i.Close()
	r.memory.give(r.share)
	return err == nil
}

// Process returns what is known of the process of the instance, while there is one.
func (r *resident) Process() (edgewise.Process, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		return r.now.Process()
	}
	return edgewise.Process{Reason: "it has given its memory up and is loaded by the next request", Evicted: true}, true
}

// Ended returns nil: a process that is gone for good is one more that the next request loads.
func (r *resident) Ended() <-chan struct{} { return nil }

// Close unloads the instance.
func (r *resident) Close() error {
	r.loading.Lock()
	defer r.loading.Unlock()
	r.mu.Lock()
	for r.holds > 0 {
		r.idle.Wait()
	}
	i := r.now
	r.now = nil
	r.mu.Unlock()
	r.memory.give(r.share)
	if i == nil {
		return nil
	}
	return i.Close()
}

// loadGPU loads the version on one GPU, when there is room for it there. What it takes of the GPU's memory is
// returned when it is closed.
func (t *load) loadGPU(ctx context.Context, on edgewise.Device) (isolated, error) {
	v := t.version
	inspection, err := t.inspection()
	if err != nil {
		return nil, err
	}
	s := &share{id: v.ID, device: on, bytes: gpuNeed(v.Model, inspection, on)}
	load := func(ctx context.Context) (isolated, error) {
		i, err := t.backend.Load(ctx, v, t.dir, on)
		if err != nil {
			return nil, err
		}
		own, ok := i.(isolated)
		if !ok {
			return nil, errors.Join(edgewise.Errorf("serving.Load", edgewise.Internal,
				"model %v: it is not in a process of its own", v.ID), i.Close())
		}
		return own, nil
	}
	if v.Model.Parameters[residencyParameter].StringValue == residencyOnDemand {
		return newResident(ctx, t.memory, s, load)
	}
	if err := t.memory.take(s); err != nil {
		return nil, err
	}
	t.onClose = append(t.onClose, func() { t.memory.give(s) })
	return load(ctx)
}
