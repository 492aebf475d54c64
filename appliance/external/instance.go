package external

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/host"
)

// Instance is a version in processes, one for each instance of its groups. Each is started again when it dies.
type Instance struct {
	backend  *Backend
	manifest *Manifest
	version  *edgewise.Version
	dir      string
	workers  []*worker

	closing chan struct{}
	ended   chan struct{} // closed when no process is left that is started again
	run     sync.WaitGroup

	mu      sync.Mutex // guards what follows
	idle    []*worker  // with a process that has no batch
	waiting []waiter
	alive   int // workers with a process, or on the way to the next one
	crashes uint64
	reason  string // why a process is missing
	closed  bool
	spare   *process // that waits for START; nil: there is none
}

// waiter is a batch that waits for a worker: that with a number, from 1, or any if it is 0.
type waiter struct {
	number int
	given  chan *worker // nil says that it is to look again
}

func (w waiter) takes(o *worker) bool { return w.number == 0 || w.number == o.about.Index+1 }

var (
	_ edgewise.Answerer = (*Instance)(nil)
	_ edgewise.Isolated = (*Instance)(nil)
)

func newInstance(b *Backend, m *Manifest, v *edgewise.Version, dir string, devices []edgewise.Device) *Instance {
	i := &Instance{
		backend: b, manifest: m, version: v, dir: dir, closing: make(chan struct{}), ended: make(chan struct{}),
	}
	for _, g := range v.Model.InstanceGroup {
		if g.Passive {
			continue
		}
		for _, on := range placed(g, devices) {
			for range g.Count {
				i.add(g, on)
			}
		}
	}
	return i
}

// placed are the devices of a group: those that it names, all if it names none, or the CPU.
func placed(g edgewise.InstanceGroup, devices []edgewise.Device) []edgewise.Device {
	if g.Kind == edgewise.KindCPU || devices[0].Kind == edgewise.CPU {
		return []edgewise.Device{{}}
	}
	return slices.DeleteFunc(slices.Clone(devices), func(on edgewise.Device) bool {
		return len(g.GPUs) > 0 && !slices.Contains(g.GPUs, int32(on.Index))
	})
}

// add adds a worker of a group on a device. It sees no other GPU than its own, so that is its GPU 0.
func (i *Instance) add(g edgewise.InstanceGroup, on edgewise.Device) {
	kind, number := g.Kind, 0
	switch {
	case on.Kind != edgewise.CPU:
		kind = edgewise.KindGPU
	case kind == "" || kind == edgewise.KindAuto:
		kind = edgewise.KindCPU
	}
	for _, w := range i.workers {
		if w.group == g.Name {
			number++
		}
	}
	i.workers = append(i.workers, &worker{
		instance: i, group: g.Name, on: on, about: backend.StartInstance{
			Name: fmt.Sprintf("%s_%d", g.Name, number), Kind: string(kind), Index: len(i.workers),
		},
	})
}

// load starts all processes at once and waits until each has loaded.
func (i *Instance) load(ctx context.Context) error {
	errs := make([]error, len(i.workers))
	var loading sync.WaitGroup
	for n, w := range i.workers {
		loading.Go(func() { errs[n] = w.start(ctx) })
	}
	loading.Wait()
	at := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if at >= 0 {
		for _, w := range i.workers {
			w.drop()
		}
		return errs[at]
	}
	i.alive = len(i.workers)
	for _, w := range i.workers {
		i.release(w)
		i.run.Go(w.supervise)
	}
	i.prepare()
	return nil
}

// acquire returns a worker that has a process without a batch, and waits for one while there are any that live: the one
// with a number, from 1, or any if it is 0. Errors: Unavailable, those of ctx.
func (i *Instance) acquire(ctx context.Context, number int) (*worker, *process, error) {
	wanted := waiter{number: number}
	for {
		i.mu.Lock()
		if w := i.takeIdle(wanted); w != nil {
			i.mu.Unlock()
			if p := w.current(); p != nil {
				return w, p, nil
			}
			continue // it comes back with its next process
		}
		if i.closed || !i.hopeful(wanted) {
			reason := cmp.Or(i.reason, "its process has just died")
			i.mu.Unlock()
			return nil, nil, edgewise.Errorf("external.Run", edgewise.Unavailable, "model %v: %s", i.version.ID, reason)
		}
		wanted.given = make(chan *worker, 1)
		i.waiting = append(i.waiting, wanted)
		i.mu.Unlock()
		select {
		case w := <-wanted.given:
			if w == nil {
				continue
			}
			if p := w.current(); p != nil {
				return w, p, nil
			}
		case <-ctx.Done():
			i.mu.Lock()
			i.waiting = slices.DeleteFunc(i.waiting, func(w waiter) bool { return w == wanted })
			i.mu.Unlock()
			select {
			case w := <-wanted.given:
				if w != nil {
					i.release(w)
				}
			default:
			}
			return nil, nil, ctx.Err()
		}
	}
}

// takeIdle takes a worker that is wanted out of the idle ones: that which became idle last, nil if there is none. The
// caller holds mu.
func (i *Instance) takeIdle(wanted waiter) *worker {
	for n, w := range slices.Backward(i.idle) {
		if wanted.takes(w) {
			i.idle = slices.Delete(i.idle, n, n+1)
			return w
		}
	}
	return nil
}

// hopeful tells whether a worker that is wanted has a process now. The caller holds mu.
func (i *Instance) hopeful(wanted waiter) bool {
	return slices.ContainsFunc(i.workers, func(w *worker) bool { return wanted.takes(w) && w.current() != nil })
}

// release makes a worker idle, whose process takes the next batch.
func (i *Instance) release(w *worker) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := slices.IndexFunc(i.waiting, func(o waiter) bool { return o.takes(w) }); at >= 0 {
		i.waiting[at].given <- w
		i.waiting = slices.Delete(i.waiting, at, at+1)
		return
	}
	if !slices.Contains(i.idle, w) {
		i.idle = append(i.idle, w)
	}
}

// wake lets all who wait look again.
func (i *Instance) wake() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, w := range i.waiting {
		w.given <- nil
	}
	i.waiting = nil
}

// Answer sends a batch to a process, that of the number which its calls agree on in Request.Instance, and returns when
// it can take the next one, or nobody waits for the batch.
func (i *Instance) Answer(ctx context.Context, calls []*edgewise.Call) error {
	w, p, err := i.acquire(ctx, calls[0].Request.Instance)
	if err != nil {
		return err
	}
	l := &lending{ctx: ctx, suspend: i.backend.Suspend, sent: make(chan struct{})}
	list := make([]*backend.Call, len(calls))
	for n, call := range calls {
		list[n] = p.open(call, l)
	}
	err = p.client.Send(ctx, list)
	close(l.sent)
	if err != nil {
		for _, call := range list {
			p.abandon(call)
		}
		i.release(w)
		return i.failure(err)
	}
	defer l.end()
	if p.client.Await(ctx) {
		i.release(w)
		return nil
	}
	go func() { // a process that has ended is released with the next one
		if p.client.Await(context.Background()) {
			i.release(w)
		}
	}()
	return nil
}

// AllocBody returns n bytes of the memory of the process that takes the next batch, for inputs of a later request; nil
// when none are free. The caller calls free once, when nothing reads them, which may be after Close.
func (i *Instance) AllocBody(n int) (data []byte, free func()) {
	i.mu.Lock()
	next := i.workers[0]
	if len(i.idle) > 0 {
		next = i.idle[len(i.idle)-1]
	}
	i.mu.Unlock()
	p := next.current()
	if p == nil {
		return nil, nil
	}
	return p.client.Borrow(n)
}

// failure gives an error of a batch that was not sent its kind.
func (i *Instance) failure(err error) error {
	if tooLarge(err) {
		return edgewise.Errorf("external.Run", edgewise.TooLarge, "model %v: %w", i.version.ID, err)
	}
	return err
}

// Run is not called: the instance is an Answerer.
func (i *Instance) Run(context.Context, []edgewise.Tensor, []string, edgewise.RunOptions) (*edgewise.Result, error) {
	return nil, edgewise.Errorf("external.Run", edgewise.Internal, "BUG: model %v answers calls", i.version.ID)
}

// Ready returns nil when the model says that it is ready, or says nothing.
func (i *Instance) Ready(ctx context.Context) error {
	for _, w := range i.workers {
		if p := w.current(); p != nil && p.counts {
			if err := p.client.Check(ctx); err != nil {
				return edgewise.Errorf("external.Ready", edgewise.Unavailable, "model %v is not ready: %w", i.version.ID, err)
			}
		}
	}
	return nil
}

// Process adds up what is known of the processes; the id is that of the first that there is.
func (i *Instance) Process() (edgewise.Process, bool) {
	var sum edgewise.Process
	for _, w := range i.workers {
		if p := w.current(); p != nil {
			sum.PID, sum.Note = cmp.Or(sum.PID, p.PID), cmp.Or(sum.Note, p.note)
			resident, _ := host.ProcessBytes("/", p.PID, host.Resident)
			sum.Resident += resident
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.spare != nil {
		resident, _ := host.ProcessBytes("/", i.spare.PID, host.Resident)
		sum.Resident += resident
	}
	sum.Crashes = i.crashes
	if sum.PID == 0 {
		sum.Reason = i.reason
	}
	return sum, true
}

// Ended is closed when no process is left that is started again.
func (i *Instance) Ended() <-chan struct{} { return i.ended }

// Close ends all processes.
func (i *Instance) Close() error {
	i.mu.Lock()
	i.closed, i.reason = true, "it is closed"
	i.mu.Unlock()
	close(i.closing)
	i.wake()
	i.run.Wait()
	if p := i.takeSpare(); p != nil {
		p.dismiss()
	}
	i.backend.Metrics.forget(i.version.ID)
	return nil
}
