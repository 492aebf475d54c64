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

// tally counts requests by outcome. It is safe for concurrent use.
type tally [outcomes]atomic.Uint64

func (t *tally) read() (e ends) {
	for i := range t {
		e[i] = t[i].Load()
	}
	return e
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
