package perf

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Bounds of what is kept of errors.
const (
	maxFailures    = 32  // different errors of one shard in one window; the rest counts as one
	maxFailureText = 200 // bytes
	otherFailures  = "other errors"
)

// Failure is one kind of error and how often it happened.
type Failure struct {
	Status int    `json:"status"` // of the answer; 0: there was none
	Text   string `json:"text"`   // what the server said, or what went wrong on the way
	Count  uint64 `json:"count"`
}

type failureKey struct {
	status int
	text   string
}

// tally is what was counted in one window.
type tally struct {
	latency    Histogram // of the requests answered with status 200
	delay      Histogram // from scheduled to sent; of an open loop
	failures   map[failureKey]uint64
	reconnects uint64
}

func (t *tally) fail(k failureKey, n uint64) {
	if t.failures == nil {
		t.failures = map[failureKey]uint64{}
	}
	if _, ok := t.failures[k]; !ok && len(t.failures) >= maxFailures {
		k = failureKey{text: otherFailures}
	}
	t.failures[k] += n
}

func (t *tally) merge(o *tally) {
	t.latency.Merge(&o.latency)
	t.delay.Merge(&o.delay)
	t.reconnects += o.reconnects
	for k, n := range o.failures {
		t.fail(k, n)
	}
}

func (t *tally) failed() uint64 {
	var sum uint64
	for _, n := range t.failures {
		sum += n
	}
	return sum
}

// sortedFailures returns the failures, most frequent first.
func (t *tally) sortedFailures() []Failure {
	list := []Failure{}
	for k, n := range t.failures {
		list = append(list, Failure{k.status, k.text, n})
	}
	slices.SortFunc(list, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Text, b.Text))
	})
	return list
}

// shard is the part of a window that some of the callers count in. There are few of them, so that thousands of callers
// do not need as many histograms.
type shard struct {
	mu  sync.Mutex // guards now
	now tally
	_   [64]byte // keeps the next one's lock on another cache line
}

// recorder counts what the callers of one step measure.
type recorder struct {
	shards  []shard
	timeout time.Duration // for the texts of errors
}

func newRecorder(callers int, timeout time.Duration) *recorder {
	return &recorder{shards: make([]shard, min(callers, 2*runtime.GOMAXPROCS(0))), timeout: timeout}
}

// measured is one request: err is nil when it was answered with status 200.
type measured struct {
	latency, delay time.Duration
	reconnects     uint64
	err            error
}

func (r *recorder) record(caller int, m measured) {
	s := &r.shards[caller%len(r.shards)]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.reconnects += m.reconnects
	s.now.delay.Record(m.delay)
	if m.err == nil {
		s.now.latency.Record(m.latency)
		return
	}
	s.now.fail(r.keyOf(m.err), 1)
}

func (r *recorder) keyOf(err error) failureKey {
	if refused, ok := errors.AsType[*refusal](err); ok {
		return failureKey{refused.status, shorten(refused.text)}
	}
	return failureKey{0, shorten(textOf(err, r.timeout))}
}

// take returns what was counted since the last take.
func (r *recorder) take() *tally {
	sum := &tally{}
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		sum.merge(&s.now)
		clear(s.now.failures)
		s.now = tally{failures: s.now.failures}
		s.mu.Unlock()
	}
	return sum
}

// shorten bounds a text in length.
func shorten(text string) string {
	if len(text) <= maxFailureText {
		return text
	}
	cut := maxFailureText
	for cut > 0 && text[cut]&0xc0 == 0x80 {
		cut--
	}
	return text[:cut] + "..."
}
