package runner

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// Where a short run belongs. Waking a thread on a sleeping core takes 20 to 30 us, longer than a small model runs, and
// the kernel wakes a thread on an idle core whenever there is one. Switching to another thread of the same core takes 3
// us, and a caller needs no core while its run is in the child. So while several runs are in progress, caller and child
// share a core: the caller picks a channel whose thread in the child waits on the caller's core. While one run is in
// progress at a time, the child's thread has another core and spins for the next run. A long run stays on the core that
// the scheduler leased for it.

// anywhere is the core of a thread that the kernel puts where it likes.
const anywhere = -1

const (
	// shortRun is the longest run that counts as short.
	shortRun = 200 * time.Microsecond
	// concurrentMemory is for how many runs two that were in flight together are remembered.
	concurrentMemory = 64
	// answerSpin, sharedSpin and ownSpin are how long is looked for an answer, and for the next run on a core that is
	// shared with the caller, and on one of the child's own.
	answerSpin = 50 * time.Microsecond
	sharedSpin = 2 * time.Microsecond
	ownSpin    = 150 * time.Microsecond
)

// waitPlan says on which core a run goes and how both sides wait for it.
type waitPlan struct {
	core       int           // of the run, or anywhere
	spinAnswer time.Duration // of the caller before it sleeps; 0: it does not spin
	spinNext   time.Duration // of the child's thread after the run
	park       bool          // the caller sleeps on the wake pipe, without its thread
	stay       bool          // the caller's thread stays on the run's core
}

// runProfile describes the last runs of a version. The zero value expects long ones.
type runProfile struct {
	short      atomic.Bool
	concurrent atomic.Int32 // runs for which it still counts as crowded
}

// ran notes how long a run took in the child.
func (t *runProfile) ran(took time.Duration) { t.short.Store(took < shortRun) }

// waitPlan chooses for a run, when so many are in flight with it.
func (t *runProfile) waitPlan(inFlight int, options edgewise.RunOptions) waitPlan {
	if inFlight > 1 {
		t.concurrent.Store(concurrentMemory)
	} else if n := t.concurrent.Load(); n > 0 {
		t.concurrent.CompareAndSwap(n, n-1)
	}
	switch {
	case !t.short.Load() && options.Core > 0:
		return waitPlan{core: options.Core - 1, park: options.Queued, stay: !options.Queued}
	case !t.short.Load():
		return waitPlan{core: anywhere, park: options.Queued}
	case t.concurrent.Load() > 0 && runtime.NumCPU() > 1:
		return waitPlan{currentCore(), answerSpin, sharedSpin, false, false}
	}
	return waitPlan{anywhere, answerSpin, ownSpin, false, false}
}

// currentCore returns the core that the calling thread is on.
func currentCore() int {
	var core uint32
	if _, _, number := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0); number != 0 {
		return anywhere
	}
	return int(core)
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

// yieldToScheduler lets the calling goroutine, which waits on a core, be scheduled. It may continue on another thread.
func yieldToScheduler(core int, cores *unix.CPUSet) {
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
