package runner

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// anywhere is the core of a thread that the kernel puts where it likes.
const anywhere = -1

// waitPlan says on which core a run goes and how its caller waits for it.
type waitPlan struct {
	core int  // of the run, or anywhere
	park bool // the caller sleeps on the wake pipe, without its thread
	stay bool // the caller's thread stays on the run's core
}

// planWait keeps a run on the core that the scheduler leased for it.
func planWait(options edgewise.RunOptions) waitPlan {
	return waitPlan{
		core: options.Core - 1, park: options.Queued || options.Background, stay: options.Core > 0 && !options.Queued,
	}
}

// pinCaller keeps the thread that waits for a run on the run's core until back is called, so that the answer is read
// where it was written.
func (b waitPlan) pinCaller() (back func()) {
	var before unix.CPUSet
	if !b.stay || unix.SchedGetaffinity(0, &before) != nil {
		return func() {}
	}
	runtime.LockOSThread()
	moveTo(b.core, nil)
	return func() {
		moveTo(anywhere, &before)
		runtime.UnlockOSThread()
	}
}

// maxUnscheduled is how long a channel's thread in the child runs without passing through Go's scheduler. It only
// leaves Go for the kernel or for native code. Go's monitor takes a goroutine that was not scheduled for 10 ms for one
// that runs without end, takes its processor, and looks again every 20 us while it finds one: a tenth of a core.
// Passing through the scheduler wakes another thread, some 30 us.
const maxUnscheduled = 9 * time.Millisecond

// mustYield tells whether a channel that passed through the scheduler at last, and has run since began, would exceed
// maxUnscheduled by another such run.
func mustYield(last, began, now time.Time) bool { return now.Sub(last)+now.Sub(began) > maxUnscheduled }

// yieldToScheduler lets the calling goroutine, which waits on a core, be scheduled. It may continue on another thread,
// unless it keeps its own.
func yieldToScheduler(core int, cores *unix.CPUSet, keeps bool) {
	if keeps {
		runtime.Gosched()
		return
	}
	if core != anywhere {
		moveTo(anywhere, cores)
		defer func() { moveTo(core, cores) }()
	}
	runtime.UnlockOSThread()
	runtime.Gosched()
	runtime.LockOSThread()
}

// moveTo keeps the calling thread on a core, or lets it run on any of cores.
func moveTo(core int, cores *unix.CPUSet) {
	if core == anywhere {
		_ = unix.SchedSetaffinity(0, cores)
		return
	}
	var only unix.CPUSet
	only.Set(core)
	_ = unix.SchedSetaffinity(0, &only) // where that is refused: slower, and right all the same
}
