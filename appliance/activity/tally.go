package activity

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// maxCallers bounds the callers of one version that are told apart; all others are counted as OtherCallers.
const maxCallers = 32

// The names of callers that are nobody's own.
const (
	OtherCallers  = "others"
	InsideCallers = "model" // another model of the box: an ensemble, or a step
)

// outcomes is how many ways there are for a request to end: it is answered, or it fails with one of the kinds.
const outcomes = 17

// answered is the outcome of a request that was answered; a failed one has 1 and its kind.
const answered = 0

func outcomeOf(err error) int {
	if err == nil {
		return answered
	}
	return 1 + int(edgewise.KindOf(err))
}

// outcomeName is the outcome as it stands in metrics and in the administration interface.
func outcomeName(outcome int) string {
	if outcome == answered {
		return "success"
	}
	return edgewise.Kind(outcome - 1).String()
}

func refused(outcome int) bool { return outcome != answered && edgewise.Kind(outcome-1).Refusal() }

// ends are how many requests ended in each way.
type ends [outcomes]uint64

// sums returns how many requests there were, how many of them failed, and how many were refused.
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

// caller is who made a request: the parts of an Actor, which need not be put together to be counted.
type caller struct{ kind, name string }

func (c caller) String() string { return (&edgewise.Principal{Kind: c.kind, Name: c.name}).Actor() }

// tally counts requests by how they ended. It is safe for concurrent use.
type tally [outcomes]atomic.Uint64

func (t *tally) read() (e ends) {
	for i := range t {
		e[i] = t[i].Load()
	}
	return e
}

// callers counts the requests to a version by who made them. It is safe for concurrent use; the zero value is empty.
type callers struct {
	tallies atomic.Pointer[map[caller]*tally] // a map is not changed once it is there; nil: empty
	adding  sync.Mutex                        // held while it is replaced
}

// of returns the tally of a caller, or that of the others when there are too many.
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

// read returns what everybody's requests came to, and of them those that other models made.
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

// spent adds up the time of requests: those that were answered, and those that were not.
type spent struct{ answered, not atomic.Int64 }

func (s *spent) add(outcome int, took time.Duration) {
	if outcome == answered {
		s.answered.Add(int64(took))
		return
	}
	s.not.Add(int64(took))
}
