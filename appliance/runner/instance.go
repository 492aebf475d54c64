package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Instance is a version in a child process, which is started again when it dies.
type Instance struct {
	backend *Backend
	id      edgewise.ModelID
	dir     string
	task    []byte
	arena   *arena
	closing chan struct{}
	ended   chan struct{} // the supervisor has returned
	fallen  chan struct{} // closed when the child is not started again
	stats   counters
	onGPU   bool

	mu      sync.Mutex
	process *process // nil while there is none
	reason  string   // why there is none
	crashes []time.Time
}

var (
	_ edgewise.Instance  = (*Instance)(nil)
	_ edgewise.Allocator = (*Instance)(nil)
	_ edgewise.Isolated  = (*Instance)(nil)
)

// Stats are counts since the load, and the child's process id, 0 while there is none.
type Stats struct {
	Runs      int64 // answered, failed ones included
	CopiedIn  int64 // input bytes copied into shared memory, in this process: those that did not stand in memory of Alloc
	CopiedOut int64 // output bytes copied out of shared memory, in this process: strings only
	ChildOut  int64 // output bytes that the child copied into shared memory: those that its instance did not make there
	Crashes   int64
	PID       int
}

// Copied is how many bytes of tensors the crossing has copied, on both sides.
func (s Stats) Copied() int64 { return s.CopiedIn + s.CopiedOut + s.ChildOut }

type counters struct{ runs, copiedIn, copiedOut, childOut, crashes, generation atomic.Int64 }

func newInstance(b *Backend, id edgewise.ModelID, dir string, task []byte) *Instance {
	return &Instance{
		backend: b, id: id, dir: dir, task: task, arena: newArena(b.config.MaxArena),
		closing: make(chan struct{}), ended: make(chan struct{}), fallen: make(chan struct{}),
	}
}

// Stats returns what has been counted so far.
func (i *Instance) Stats() Stats {
	s := Stats{
		Runs: i.stats.runs.Load(), CopiedIn: i.stats.copiedIn.Load(), CopiedOut: i.stats.copiedOut.Load(),
		ChildOut: i.stats.childOut.Load(), Crashes: i.stats.crashes.Load(),
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.process != nil {
		s.PID = i.process.pid
	}
	return s
}

// Ended is closed when the child has died so often that it is not started again.
func (i *Instance) Ended() <-chan struct{} { return i.fallen }

// Process returns what is known of the child.
func (i *Instance) Process() (edgewise.Process, bool) {
	s := i.Stats()
	p := edgewise.Process{PID: s.PID, Crashes: uint64(s.Crashes), Copied: uint64(s.Copied())}
	if p.PID != 0 {
		p.Resident = resident(p.PID)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	p.Reason = i.reason
	return p, true
}

// resident returns the resident bytes of a process, 0 when it is not there any more.
func resident(pid int) int64 {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(content), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// start makes a child and waits until it has loaded the model.
func (i *Instance) start(ctx context.Context) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, i.backend.config.LoadTimeout)
	defer cancel()
	p, err := i.backend.spawn(i, uint64(i.stats.generation.Add(1)))
	if err != nil {
		return nil, edgewise.Errorf("runner.start", edgewise.Internal, "model %v: its process cannot be started: %w", i.id, err)
	}
	err = p.loaded(ctx)
	if err == nil {
		return p, nil
	}
	p.end()
	return nil, err
}

// supervise takes over a started child and starts another one whenever it dies, until it has died too often.
func (i *Instance) supervise(p *process) {
	i.process = p
	go func() {
		defer close(i.ended)
		for p != nil {
			select {
			case <-i.closing:
				p.end()
				return
			case <-p.dead:
			}
			p.end()
			i.died(p.cause)
			p = i.restart()
		}
		select {
		case <-i.closing:
		default:
			close(i.fallen)
		}
	}()
}

// died records a crash.
func (i *Instance) died(cause string) {
	i.stats.crashes.Add(1)
	now := time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.process = nil
	i.crashes = append(slices.DeleteFunc(i.crashes, func(t time.Time) bool { return now.Sub(t) > i.backend.config.CrashWindow }), now)
	i.reason = fmt.Sprintf("its process died (%s) and is being started again", cause)
	if len(i.crashes) >= i.backend.config.MaxCrashes {
		i.reason = fmt.Sprintf("its process died %d times within %v, the last time with: %s; it is not started again before the model is loaded anew", len(i.crashes), i.backend.config.CrashWindow, cause)
	}
	i.backend.config.Logger.Error("the process of a model died", "model", i.id.String(), "cause", cause, "crashes", len(i.crashes))
}

// restart waits for the back-off and starts a child, until one has loaded. It returns nil when the instance is being
// closed or has crashed too often.
func (i *Instance) restart() *process {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-i.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		i.mu.Lock()
		crashes := len(i.crashes)
		i.mu.Unlock()
		if crashes >= i.backend.config.MaxCrashes {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backOff(i.backend.config, crashes)):
		}
		p, err := i.start(ctx)
		if err == nil {
			i.mu.Lock()
			i.process, i.reason = p, ""
			i.mu.Unlock()
			i.backend.config.Logger.Info("the process of a model was started again", "model", i.id.String(), "pid", p.pid)
			return p
		}
		if ctx.Err() != nil {
			return nil
		}
		i.died(err.Error())
	}
}

// backOff is the wait after the n-th crash, n from 1.
func backOff(c Config, n int) time.Duration {
	wait := c.FirstBackOff
	for ; n > 1 && wait < c.LastBackOff; n-- {
		wait *= 2
	}
	return min(wait, c.LastBackOff)
}

// Close ends the child, and with it gives all its memory back.
func (i *Instance) Close() error {
	close(i.closing)
	<-i.ended
	i.mu.Lock()
	i.process, i.reason = nil, "it is closed"
	i.mu.Unlock()
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
	i.arena.lend(b)
	return b.data[:n:n], func() { i.arena.unlend(b) }, nil
}

// block takes a block and tells the child which ones were given up for it.
func (i *Instance) block(need int64) (*block, error) {
	b, dropped, err := i.arena.take(need)
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
			p.tell(pair{a: uint64(b)}.append(nil, kindForget))
		}
	}
}

func (i *Instance) exhausted(err error) error {
	return edgewise.Errorf("runner.Run", edgewise.Exhausted, "model %v: %w", i.id, err)
}

// alive returns the child. Error: Unavailable, with the reason why there is none.
func (i *Instance) alive() (*process, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.process == nil {
		return nil, edgewise.Errorf("runner.Run", edgewise.Unavailable, "model %v: %s", i.id, i.reason)
	}
	return i.process, nil
}

// Run computes in the child. Inputs outside memory of Alloc are copied into shared memory once; outputs are read there
// in place until Free, strings excepted. A child that is being restarted is not waited for. Errors: those of the child's
// backend; Unavailable when the child died or is gone; Exhausted when shared memory is used up; TooLarge.
func (i *Instance) Run(ctx context.Context, in []edgewise.Tensor, want []string) (*edgewise.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := fits(in, want); err != nil {
		return nil, edgewise.Errorf("runner.Run", edgewise.TooLarge, "model %v: %w", i.id, err)
	}
	p, err := i.alive()
	if err != nil {
		return nil, err
	}
	l, where, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	defer p.give(l, where.core)
	r := &run{instance: i, process: p, lane: l, want: want, berth: where}
	result, err := r.execute(ctx, in)
	i.stats.runs.Add(1)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return nil, ctx.Err()
	}
	return result, err
}
