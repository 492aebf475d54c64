package runner

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/host"
)

// Instance is a version in a child process, its own or one that it shares, which is started again when it dies.
type Instance struct {
	backend *Backend
	group   *group
	id      edgewise.ModelID
	task    member
	arena   *arena
	stats   counters
	pads    atomic.Bool // rows may be added to batches
	closed  atomic.Bool
	used    atomic.Int64                    // when a run was sent to the child for the last time, in nanoseconds since 1970
	claims  atomic.Pointer[edgewise.Claims] // nil: the child stays
}

var (
	_ edgewise.Instance = (*Instance)(nil)
	_ edgewise.Isolated = (*Instance)(nil)
)

// Stats are counts since the load, and the child's process id, 0 while there is none.
type Stats struct {
	Runs      int64 // answered, failed ones included
	CopiedIn  int64 // input bytes copied into shared memory, in this process: those that did not stand in memory of Alloc
	CopiedOut int64 // output bytes copied out of shared memory, in this process: strings only
	ChildOut  int64 // output bytes that the child copied into shared memory: those that its instance did not make there
	Crashes   int64
	Wakes     int64 // starts by a run, after a Rest
	PID       int
}

// Copied is how many bytes of tensors the crossing has copied, on both sides.
func (s Stats) Copied() int64 { return s.CopiedIn + s.CopiedOut + s.ChildOut }

type counters struct{ runs, copiedIn, copiedOut, childOut, crashes, wakes atomic.Int64 }

func newInstance(b *Backend, id edgewise.ModelID, task member) *Instance {
	i := &Instance{backend: b, id: id, task: task}
	i.arena = newArena(b.config.MaxArena, i.forget)
	return i
}

// AllowPadding lets the child add rows to batches, which each run says: also to a child that was started
// again.
func (i *Instance) AllowPadding() { i.pads.Store(true) }

// Stats returns what has been counted so far.
func (i *Instance) Stats() Stats {
	s := i.stats.read()
	if p, err := i.alive(); err == nil {
		s.PID = p.PID
	}
	return s
}

func (c *counters) read() Stats {
	return Stats{
		Runs: c.runs.Load(), CopiedIn: c.copiedIn.Load(), CopiedOut: c.copiedOut.Load(),
		ChildOut: c.childOut.Load(), Crashes: c.crashes.Load(),
		Wakes: c.wakes.Load(),
	}
}

// Background tells whether runs in the background give way to all others: those on the CPU do.
func (i *Instance) Background() bool { return i.task.Device.Kind == edgewise.CPU }

// Ended is closed when the child has died so often that it is not started again.
func (i *Instance) Ended() <-chan struct{} { return i.group.fallen }

// Process returns what is known of the child. Members of a group all report the one that they share.
func (i *Instance) Process() (edgewise.Process, bool) {
	s := i.stats.read()
	p := edgewise.Process{Group: i.group.name, Crashes: uint64(s.Crashes), Copied: uint64(s.Copied()), Wakes: uint64(s.Wakes)}
	i.group.mu.Lock()
	now := i.present()
	if now == nil {
		p.Reason, p.Resting = i.absence(), i.group.resting
	}
	i.group.mu.Unlock()
	if now != nil {
		p.PID = now.PID
		p.Resident, _ = host.ProcessBytes("/", p.PID, host.Resident)
	}
	return p, true
}

// Close ends the child, and with it gives all its memory back. A child that is shared with others unloads the model.
func (i *Instance) Close() error {
	i.closed.Store(true)
	i.group.leave(i)
	i.arena.close()
	return nil
}

// Alloc returns n bytes of shared memory, aligned to 64. Inputs that stand in them cross to the child without a copy.
// free ends their use; no run reads them then. Errors: Exhausted.
func (i *Instance) Alloc(n int) (data []byte, free func(), err error) {
	b, err := i.block(int64(n))
	if err != nil {
		return nil, nil, err
	}
	i.arena.handOut(b)
	return b.data[:n:n], func() { i.arena.giveBack(b, int64(n)) }, nil
}

// keptBytes is how many bytes of an input's memory a caller of Alloc may keep between runs: all runs share the arena.
const keptBytes = 1 << 20

// KeptBytes returns that bound.
func (i *Instance) KeptBytes() int { return keptBytes }

// block takes a block and tells the child which ones were given up for it.
func (i *Instance) block(need int64) (*block, error) {
	b, dropped, err := i.arena.acquire(need)
	i.forget(dropped)
	if err != nil {
		return nil, i.exhausted(err)
	}
	return b, nil
}

func (i *Instance) forget(blocks []uint32) {
	if len(blocks) == 0 {
		return
	}
	if p, err := i.alive(); err == nil {
		for _, b := range blocks {
			p.tell(pair{uint64(b), p.index(i)}.append(nil, kindForget))
		}
	}
}

func (i *Instance) exhausted(err error) error {
	return edgewise.Errorf("runner.Run", edgewise.Exhausted, "model %v: %w", i.id, err)
}

// alive returns the child. Error: Unavailable, with the reason why there is none.
func (i *Instance) alive() (*process, error) {
	i.group.mu.Lock()
	defer i.group.mu.Unlock()
	if p := i.present(); p != nil {
		return p, nil
	}
	return nil, i.unavailable()
}

// enter returns the child for a run: it is not given up before the run calls its users' Done. One that rests is woken.
// Error: Unavailable, with the reason why there is none.
func (i *Instance) enter(ctx context.Context) (*process, error) {
	for {
		p, resting, err := i.use()
		if !resting {
			return p, err
		}
		release, err := i.Wake(ctx)
		if err != nil {
			return nil, err
		}
		p, _, _ = i.use()
		release()
		if p != nil {
			return p, nil
		}
	}
}

// use enters the child. There is none where it rests, or for the reason that err tells.
func (i *Instance) use() (p *process, resting bool, err error) {
	i.group.mu.Lock()
	defer i.group.mu.Unlock()
	if p = i.present(); p == nil {
		return nil, i.group.resting && !i.closed.Load(), i.unavailable()
	}
	p.users.Add(1)
	i.used.Store(time.Now().UnixNano())
	return p, false, nil
}

// present returns the child, nil when there is none. The caller holds the group's mutex.
func (i *Instance) present() *process {
	if i.closed.Load() {
		return nil
	}
	return i.group.process
}

// unavailable is the error of a run for which there is no child. The caller holds the group's mutex.
func (i *Instance) unavailable() error {
	return edgewise.Errorf("runner.Run", edgewise.Unavailable, "model %v: %s", i.id, i.absence())
}

// absence is why there is no child. The caller holds the group's mutex.
func (i *Instance) absence() string {
	if i.closed.Load() {
		return "it is closed"
	}
	return i.group.reason
}

// Run computes in the child. Inputs outside memory of Alloc are copied into shared memory once; outputs are read there
// in place until Free, strings excepted. A child that is being restarted is not waited for, one that rests is. Errors: those of the
// child's backend, and of Claims.Take; Unavailable when the child died or is gone; Exhausted when shared memory is used up; TooLarge.
func (i *Instance) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := fits(in, want); err != nil {
		return nil, edgewise.Errorf("runner.Run", edgewise.TooLarge, "model %v: %w", i.id, err)
	}
	p, err := i.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer p.users.Done()
	l, where, err := p.acquire(ctx, i, options)
	if err != nil {
		return nil, err
	}
	defer p.release(l, where.core)
	r := &run{instance: i, process: p, channel: l, want: want, waitPlan: where}
	result, err := r.execute(ctx, in, options.Solo && !i.scarce())
	i.stats.runs.Add(1)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return nil, ctx.Err()
	}
	return result, err
}
