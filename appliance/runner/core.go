package runner

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// Where a short run belongs. Waking a thread on a core that sleeps takes 20 to 30 us, longer than a small model runs, and
// the kernel wakes a thread on an idle core whenever there is one; switching to another thread of the same core takes some
// 3 us. Who waits for a run needs no core meanwhile. So while several runs are in flight, caller and child share a core:
// the caller takes a lane whose thread in the child waits on the core that the caller is on. While there is one at a time
// and cores are idle, the child's thread is on another one and looks for the next run a little longer before it sleeps. A long run is kept
// on the core that the scheduler gave it for itself.

// anywhere is the core of a thread that the kernel puts where it likes.
const anywhere = -1

const (
	// quick is the longest run that counts as short.
	quick = 200 * time.Microsecond
	// crowdMemory is for how many runs two that were in flight together are remembered.
	crowdMemory = 64
	// answerLook, sharedLook and ownLook are how long is looked for an answer, and for the next run on a core that is
	// shared with the caller, and on one of the child's own.
	answerLook = 50 * time.Microsecond
	sharedLook = 2 * time.Microsecond
	ownLook    = 150 * time.Microsecond
)

// berth is where a run goes, and how both sides wait: how long they look before they sleep, 0 for not at all, and whether the caller
// sleeps without its thread, or keeps it where the run is.
type berth struct {
	core                 int
	lookAnswer, lookNext time.Duration
	park, stay           bool
}

// tempo is what the last runs of a version were like. The zero value expects long ones.
type tempo struct {
	short atomic.Bool
	crowd atomic.Int32 // runs for which it still counts as crowded
}

// ran notes how long a run took in the child.
func (t *tempo) ran(took time.Duration) { t.short.Store(took < quick) }

// berth chooses for a run, when so many are in flight with it.
func (t *tempo) berth(inFlight int, call edgewise.Call) berth {
	if inFlight > 1 {
		t.crowd.Store(crowdMemory)
	} else if n := t.crowd.Load(); n > 0 {
		t.crowd.CompareAndSwap(n, n-1)
	}
	switch {
	case !t.short.Load() && call.Core > 0:
		return berth{core: call.Core - 1, park: call.Queued, stay: !call.Queued}
	case !t.short.Load():
		return berth{core: anywhere, park: call.Queued}
	case t.crowd.Load() > 0 && runtime.NumCPU() > 1:
		return berth{present(), answerLook, sharedLook, false, false}
	}
	return berth{anywhere, answerLook, ownLook, false, false}
}

// present returns the core that the calling thread is on.
func present() int {
	var core uint32
	if _, _, number := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0); number != 0 {
		return anywhere
	}
	return int(core)
}

// remain keeps the thread that waits for a run on the run's core until back is called: it is woken there, beside nobody, and so is who gets
// the answer.
func (b berth) remain() (back func()) {
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

// breath is how long a lane in the child goes, at most, without passing through Go's scheduler. All that it does otherwise is to leave Go,
// for the kernel or for native code. Go's monitor takes a goroutine that was not scheduled for 10 ms for one that runs without end, whatever
// else it did, takes its processor, and looks again every 20 us while it finds one: a tenth of a core that a run on it wants. Passing
// through wakes another thread for nothing, some 30 us.
const breath = 9 * time.Millisecond

// outOfBreath tells whether a lane that breathed last, and has run since began, would go without for too long if it ran as long again.
func outOfBreath(last, began, now time.Time) bool { return now.Sub(last)+now.Sub(began) > breath }

// breathe lets the calling lane, which waits on a core, be scheduled. It may come back on another thread.
func breathe(core int, cores *unix.CPUSet) {
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
