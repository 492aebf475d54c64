package sequence

import (
	"container/list"
	"context"
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// correlationID identifies a sequence of one version.
type correlationID struct {
	id   uint64
	name string
}

func idOf(s edgewise.Sequence) correlationID { return correlationID{s.ID, s.Name} }

// String is the id as the client wrote it.
func (c correlationID) String() string {
	if c.name != "" {
		return c.name
	}
	return fmt.Sprint(c.id)
}

// sequence is one sequence from its first request to its end. The table's mutex guards it, except state, which
// belongs to the goroutine that runs the sequence's request.
//
//	         enters            a slot is free         its last request is done
//	(none) ---------> backlog -----------------> slot --------------------------> (none)
//	                     |                        |                                  ^
//	                     | canceled, time over    | idle for too long, canceled      |
//	                     +------------------------+----------------------------------+
//
// At most one of its requests runs at a time, and they run in the order in which they came.
type sequence struct {
	id      correlationID
	hasSlot bool       // it has a slot
	slot    slot       // where, when it is hasSlot
	queue   []*request // waiting, in order of arrival
	running *request
	ending  bool      // it accepts no more requests: its last one is in the queue, runs or has been canceled
	expires time.Time // when its time in the backlog is over; zero: never
	since   time.Time // since when it is idle, while it is in the list of idle ones
	in      *line     // the backlog or the idle ones; nil: neither
	place   *list.Element
	state   stateStore // what its last request left behind
}

// request is one request of a sequence. Its owner is the goroutine of Infer; the table's mutex guards the fields that
// are not said to be its owner's.
type request struct {
	of         *sequence
	start, end bool // set by its owner before it enters
	restarts   bool // the sequence existed already. Written by enter
	arrived    time.Time
	call       *call
	granted    chan struct{} // one token: the request may run, or has an answer
	err        error         // why it never runs. Written before the token, read after it
}

// call is what a request asks for and what answers it.
type call struct {
	ctx      context.Context
	request  *edgewise.Request
	inputs   []edgewise.Tensor // as the client sent them, in the model's order
	want     []string
	response *edgewise.Response // of the direct batcher
	err      error
}

// limit notes how long c may wait. The time of a sequence in the backlog is over when that of one of its requests is,
// as in Triton.
func (s *sequence) limit(c *request) {
	timeout := c.call.request.Timeout
	if until := c.arrived.Add(timeout); timeout > 0 && (s.expires.IsZero() || until.Before(s.expires)) {
		s.expires = until
	}
}

// renew sets the time of a sequence in the backlog from the requests that are left.
func (s *sequence) renew() {
	s.expires = time.Time{}
	for _, c := range s.queue {
		s.limit(c)
	}
}

// line is sequences in the order in which they entered it. A sequence is in one line at a time.
type line struct{ list.List }

// first is the sequence that has been in the line for the longest time, nil when the line is empty.
func (l *line) first() *sequence {
	if e := l.Front(); e != nil {
		return e.Value.(*sequence)
	}
	return nil
}

// enter puts the sequence at the end of a line.
func (s *sequence) enter(l *line) { s.in, s.place = l, l.PushBack(s) }

// leave takes the sequence out of the line that it is in.
func (s *sequence) leave() {
	if s.in != nil {
		s.in.Remove(s.place)
		s.in, s.place = nil, nil
	}
}
