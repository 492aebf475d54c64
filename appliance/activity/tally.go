package activity

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// maxCallers bounds the callers of one version that are counted apart; all others are counted as OtherCallers.
const maxCallers = 32

// The names of callers that are not an account.
const (
	OtherCallers  = "others"
	InsideCallers = "model" // another model: an ensemble, or a step
)

// outcomes is the number of outcomes of a request: success, or an error of one of the kinds.
const outcomes = 17

// answered is the outcome success; that of an error is 1 plus its kind.
const answered = 0

func outcomeOf(err error) int {
	if err == nil {
		return answered
	}
	return 1 + int(edgewise.KindOf(err))
}

// outcomeName is the name of an outcome in metrics and in the administration API.
func outcomeName(outcome int) string {
	if outcome == answered {
		return "success"
	}
	return edgewise.Kind(outcome - 1).String()
}

func refused(outcome int) bool { return outcome != answered && edgewise.Kind(outcome-1).Refusal() }

// ends are the numbers of requests by outcome.
type ends [outcomes]uint64

// sums returns the number of all requests, of failed and of refused ones.
func (e *ends) sums() (all, failed, declined uint64) {
	for outcome, n := range e {
		all += n
		switch {
		case refused(outcome):
			declined += n
		case outcome != answered:
			failed += n
		}
	}
	return all, failed, declined
}

// caller is the caller of a request: the parts of an Actor, which are joined only to be shown.
type caller struct{ kind, name string }

func (c caller) String() string { return (&edgewise.Principal{Kind: c.kind, Name: c.name}).Actor() }

// tally counts the requests of one caller to a version: about 7 KiB. It is safe for concurrent use.
type tally struct {
	ends  [outcomes]atomic.Uint64
	times histogram    // of the requests that were answered
	queue atomic.Int64 // of them together

	taken taken // guarded by History.mu
}

// taken is what History.Take has read.
type taken struct {
	ends  ends
	times Times
	queue int64
}

func (t *tally) add(outcome int, o Outcome) {
	t.ends[outcome].Add(1)
	if outcome != answered {
		return
	}
	t.times.add(o.Took)
	if o.Queue > 0 {
		t.queue.Add(int64(o.Queue))
	}
}

func (t *tally) read() (e ends) {
	for i := range t.ends {
		e[i] = t.ends[i].Load()
	}
	return e
}

// take returns what was counted since it was called before; ok is false when that is nothing.
func (t *tally) take() (s Sample, ok bool) {
	now := taken{ends: t.read(), queue: t.queue.Load()}
	if now.ends == t.taken.ends {
		return s, false
	}
	t.times.addTo(&now.times)
	var between ends
	for i, n := range now.ends {
		between[i] = n - t.taken.ends[i]
	}
	s.Requests, s.Failed, s.Refused = between.sums()
	s.Queue = time.Duration(now.queue - t.taken.queue)
	s.Times = now.times.since(&t.taken.times)
	t.taken = now
	return s, true
}

// callers counts the requests to a version by caller. It is safe for concurrent use; the zero value is empty.
type callers struct {
	tallies atomic.Pointer[map[caller]*tally] // a stored map is not changed; nil: empty
	adding  sync.Mutex                        // held while the map is replaced
}

// of returns the tally of a caller, or that of OtherCallers beyond maxCallers.
func (c *callers) of(who caller) *tally {
	if t := c.all()[who]; t != nil {
		return t
	}
	c.adding.Lock()
	defer c.adding.Unlock()
	if len(c.all()) >= maxCallers {
		who = caller{kind: OtherCallers}
	}
	if t := c.all()[who]; t != nil {
		return t
	}
	more := map[caller]*tally{who: {}}
	maps.Copy(more, c.all())
	c.tallies.Store(&more)
	return more[who]
}

func (c *callers) all() map[caller]*tally {
	if m := c.tallies.Load(); m != nil {
		return *m
	}
	return nil
}

// read returns the outcomes of all requests, and of those that other models sent.
func (c *callers) read() (all, inside ends) {
	for who, t := range c.all() {
		e := t.read()
		for i, n := range e {
			all[i] += n
		}
		if who.kind == InsideCallers {
			inside = e
		}
	}
	return all, inside
}

// times returns the times of the answered requests of all callers.
func (c *callers) times() (all Times) {
	for _, t := range c.all() {
		t.times.addTo(&all)
	}
	return all
}

// list returns the counts that are not 0, by caller and outcome.
func (c *callers) list() []edgewise.OutcomeCount {
	list := []edgewise.OutcomeCount{}
	for who, t := range c.all() {
		for outcome, n := range t.read() {
			if n > 0 {
				list = append(list, edgewise.OutcomeCount{Caller: who.String(), Outcome: outcomeName(outcome), Count: n})
			}
		}
	}
	slices.SortFunc(list, func(a, b edgewise.OutcomeCount) int {
		return cmp.Or(strings.Compare(a.Caller, b.Caller), strings.Compare(a.Outcome, b.Outcome))
	})
	return list
}

// spent is the total time of requests: of successful ones, and of the others.
type spent struct{ answered, not atomic.Int64 }

func (s *spent) add(outcome int, took time.Duration) {
	if outcome == answered {
		s.answered.Add(int64(took))
		return
	}
	s.not.Add(int64(took))
}

// The buckets of a histogram of times: below 16 us one each, then 16 for each power of two, so that a percentile is at
// most 6.25 % too high. The last one holds everything from about 18 minutes on.
const (
	subBits  = 4
	subCount = 1 << subBits
	powers   = 26
	buckets  = subCount * (powers + 1)
)

// Times are the numbers of times in each bucket of a histogram, which TimeBuckets counts.
type Times [TimeBuckets]uint64

// TimeBuckets is the number of buckets of a histogram.
const TimeBuckets = buckets

// Add counts a time.
func (t *Times) Add(d time.Duration) { t[bucketOf(d)]++ }

// Merge adds other times.
func (t *Times) Merge(other *Times) {
	for i, n := range other {
		t[i] += n
	}
}

// since returns the times added after a reading.
func (t *Times) since(before *Times) (d Times) {
	for i, n := range t {
		d[i] = n - before[i]
	}
	return d
}

// histogram counts times. It is safe for concurrent use.
type histogram struct{ buckets [buckets]atomic.Uint64 }

func (h *histogram) add(d time.Duration) { h.buckets[bucketOf(d)].Add(1) }

func (h *histogram) addTo(t *Times) {
	for i := range h.buckets {
		t[i] += h.buckets[i].Load()
	}
}

func bucketOf(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	if us < subCount {
		return int(us)
	}
	power := bits.Len64(us) - 1 - subBits
	return min(subCount*(power+1)+int(us>>power)-subCount, buckets-1)
}

// upper returns the longest time, in microseconds, that falls into a bucket.
func upper(bucket int) float64 {
	if bucket < subCount {
		return float64(bucket)
	}
	power := bucket/subCount - 1
	return float64((uint64(bucket%subCount+subCount+1) << power) - 1)
}

// Percentile returns the quantile q, in microseconds; nil without times.
func (t *Times) Percentile(q float64) *float64 {
	total := uint64(0)
	for _, n := range t {
		total += n
	}
	if total == 0 {
		return nil
	}
	rank, seen := max(1, uint64(q*float64(total)+0.5)), uint64(0)
	for i, n := range t {
		if seen += n; seen >= rank {
			value := upper(i)
			return &value
		}
	}
	value := upper(buckets - 1)
	return &value
}

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
	if reason := h.unverified.Load(); reason != nil && shown.Failed == shown.Recent { // an answer verifies it, too
		shown.Unverified = *reason
	}
	if e := h.last.Load(); e != nil {
		shown.LastError = &edgewise.LastError{Time: e.at.UTC(), Code: e.kind.String(), Message: e.message, Request: e.number}
	}
	return shown
}
