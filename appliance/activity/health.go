package activity

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// healthWindow is the number of the latest requests to a version that decide whether it fails. Refused requests do not
// count.
const healthWindow = 32

// health is the outcomes of the latest requests to a version. It is safe for concurrent use; the zero value has none.
type health struct {
	window atomic.Uint64 // the upper half: how many requests there are; the lower: the latest in bit 0, 1 for a failed one
	last   atomic.Pointer[lastError]

	unverified atomic.Pointer[string] // why no run at the load has verified the version; nil: one has, or it is not known
}

// lastError is the error of the latest failed request.
type lastError struct {
	at      time.Time
	kind    edgewise.Kind
	message string
	number  uint64 // of the request among those that are kept
}

// add counts a request that was answered or failed.
func (h *health) add(failed bool) {
	for {
		old := h.window.Load()
		n, latest := old>>32, uint32(old)<<1
		if failed {
			latest |= 1
		}
		next := min(n+1, healthWindow)<<32 | uint64(latest)
		if next == old || h.window.CompareAndSwap(old, next) {
			return
		}
	}
}

// reset forgets all requests: the version was loaded again.
func (h *health) reset(unverified string) {
	h.window.Store(0)
	h.last.Store(nil)
	h.unverified.Store(&unverified)
}

// read returns the health. A version fails when at least half of the latest requests have failed.
func (h *health) read() edgewise.Health {
	w := h.window.Load()
	shown := edgewise.Health{Recent: int(w >> 32), Failed: bits.OnesCount32(uint32(w))}
	shown.Failing = shown.Failed > 0 && 2*shown.Failed >= shown.Recent
	if reason := h.unverified.Load(); reason != nil {
		shown.Unverified = *reason
	}
	if e := h.last.Load(); e != nil {
		shown.LastError = &edgewise.LastError{Time: e.at.UTC(), Code: e.kind.String(), Message: e.message, Request: e.number}
	}
	return shown
}
