package sched

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// rounds are the slots of the strategy direct with batches: each instance has as many as the batch has rows, and a
// sequence keeps its row. An instance runs one batch, a round, after the other: over all rows up to the last one that has
// a request. The rows between that have none get READY = false and a copy of another row's data.
type rounds struct {
	of       *Sequences
	rows     int
	delay    time.Duration // a round waits so long for the share of rows below
	share    float64       // of all rows, that have a request
	running  sync.WaitGroup
	table    *sequenceTable
	machines []*machine
}

// slot is a row of an instance.
type slot struct {
	machine *machine
	row     int
}

// machine is one instance: a goroutine that runs its rounds. The table's mutex guards rows and leaving.
type machine struct {
	rounds  *rounds
	rows    []*sequence // nil: free
	used    int
	leaving bool          // it takes no more sequences, and ends with its last one
	woken   chan struct{} // one token: look again
	ended   chan struct{} // closed: there is nothing more to do
	buffers map[string][]byte
	parts   []*job // one for each row, for split
}

func newRounds(s *Sequences) *rounds {
	d := s.version.Model.SequenceBatching.Direct
	r := &rounds{of: s, rows: candidates(s.version.Model), table: s.table}
	if d != nil {
		r.delay, r.share = time.Duration(d.MaxQueueDelay)*time.Microsecond, float64(d.MinimumSlotUtilization)
	}
	return r
}

// resize adds instances, or lets the last ones end when their sequences do.
func (r *rounds) resize(instances int) {
	staying := r.machines[:0:0]
	for _, m := range r.machines {
		m.leaving = len(staying) >= instances
		if !m.leaving {
			staying = append(staying, m)
		}
	}
	for n := len(staying); n < instances; n++ {
		m := &machine{rounds: r, rows: make([]*sequence, r.rows), woken: make(chan struct{}, 1), ended: make(chan struct{}), buffers: map[string][]byte{}}
		r.machines = append(r.machines, m)
		r.running.Go(m.loop)
	}
	for _, m := range append([]*machine(nil), r.machines...) {
		m.retire()
	}
}

// retire ends an instance that is leaving and has no sequences.
func (m *machine) retire() {
	if !m.leaving || m.used > 0 {
		return
	}
	for i, other := range m.rounds.machines {
		if other == m {
			m.rounds.machines = append(m.rounds.machines[:i], m.rounds.machines[i+1:]...)
			close(m.ended)
			return
		}
	}
}

// close ends every instance. No sequence is left.
func (r *rounds) close() {
	r.table.mu.Lock()
	r.resize(0)
	r.table.mu.Unlock()
	r.running.Wait()
}

// take gives a sequence the lowest free row, of the first instance that has it free.
func (r *rounds) take(s *sequence) bool {
	best := slot{}
	for _, m := range r.machines {
		if m.leaving || m.used == len(m.rows) {
			continue
		}
		for row := range m.rows {
			if m.rows[row] == nil {
				if best.machine == nil || row < best.row {
					best = slot{m, row}
				}
				break
			}
		}
	}
	if best.machine == nil {
		return false
	}
	best.machine.rows[best.row] = s
	best.machine.used++
	s.slot = best
	return true
}

func (r *rounds) give(s *sequence) {
	m := s.slot.machine
	m.rows[s.slot.row] = nil
	m.used--
	s.slot = slot{}
	m.retire()
}

func (r *rounds) advance(s *sequence) {
	select {
	case s.slot.machine.woken <- struct{}{}:
	default:
	}
}

// loop runs rounds until the instance has ended.
func (m *machine) loop() {
	var timer *time.Timer
	for {
		turns, wait := m.form(time.Now())
		if len(turns) > 0 {
			m.run(turns)
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			if timer == nil {
				timer = time.NewTimer(wait)
				defer timer.Stop()
			} else {
				timer.Reset(wait)
			}
			due = timer.C
		}
		select {
		case <-m.woken:
		case <-due:
		case <-m.ended:
			return
		}
	}
}

// form starts the requests of the next round, by row; a row without one is nil. None means that there is nothing to run,
// or not before wait is over.
func (m *machine) form(now time.Time) (turns []*turn, wait time.Duration) {
	t := m.rounds.table
	t.mu.Lock()
	defer t.mu.Unlock()
	first, ready := (*turn)(nil), 0
	for _, s := range m.rows {
		if s == nil || len(s.queue) == 0 {
			continue
		}
		ready++
		if c := s.queue[0]; first == nil || c.arrived.Before(first.arrived) {
			first = c
		}
	}
	if first == nil {
		return nil, 0
	}
	age := now.Sub(first.arrived)
	if age < m.rounds.delay && float64(ready) < m.rounds.share*float64(len(m.rows)) && !t.closed {
		return nil, m.rounds.delay - age
	}
	for row, s := range m.rows {
		if s == nil || len(s.queue) == 0 || !m.join(first, s.queue[0]) {
			continue
		}
		for len(turns) < row {
			turns = append(turns, nil)
		}
		turns = append(turns, t.start(s))
	}
	return turns, 0
}

// join tells whether d can run in one round with c: the same inputs and states in the same shapes. Parameters are a
// request's own. The states of sequences that have no request running stay as they are.
func (m *machine) join(c, d *turn) bool {
	a, b := c.call, d.call
	if c == d {
		return true
	}
	if len(a.request.Parameters) > 0 || len(b.request.Parameters) > 0 {
		return false
	}
	states := m.rounds.of.states
	return alikeTensors(a.inputs, b.inputs) && alikeTensors(states.peek(&c.of.state, c.start), states.peek(&d.of.state, d.start))
}

func alikeTensors(a, b []edgewise.Tensor) bool {
	return slices.EqualFunc(a, b, func(x, y edgewise.Tensor) bool { return x.Name == y.Name && x.Shape.Equal(y.Shape) })
}

// run runs a round and answers its requests. A round that fails is run again request by request, each in its own row.
func (m *machine) run(turns []*turn) {
	members := 0
	for _, c := range turns {
		if c != nil {
			members++
		}
	}
	err := m.attempt(turns)
	if err != nil && members > 1 && anyoneWaits(turns) {
		m.rounds.of.logger.Debug("a round of sequences failed and is run request by request", "model", m.rounds.of.version.ID.String(), "requests", members, "error", err)
		for row, c := range turns {
			if c != nil {
				single := make([]*turn, row+1)
				single[row] = c
				m.answer(c, m.attempt(single))
			}
		}
		return
	}
	for _, c := range turns {
		if c != nil {
			m.answer(c, err)
		}
	}
}

func anyoneWaits(turns []*turn) bool {
	for _, c := range turns {
		if c != nil && c.call.ctx.Err() == nil {
			return true
		}
	}
	return false
}

// answer lets a request's owner go on, and the sequence. err is that of the whole round.
func (m *machine) answer(c *turn, err error) {
	switch {
	case err != nil:
		c.call.err = err
	case c.call.err == nil && c.call.response == nil:
		c.call.err = edgewise.Errorf("sched.round", edgewise.Internal, "model %v: a round left a request without an answer", m.rounds.of.version.ID)
	}
	m.rounds.table.finish(c, c.left(c.call.err))
	c.granted <- struct{}{}
}

// attempt runs a round. Its requests have their responses when it returns nil, or an error of their own.
func (m *machine) attempt(turns []*turn) error {
	s := m.rounds.of
	for _, c := range turns {
		if c != nil {
			c.call.response, c.call.err = nil, nil
		}
	}
	if len(turns) == 1 {
		response, err := s.alone(turns[0].call.ctx, turns[0])
		turns[0].call.response = response
		return err
	}
	ctx, end := together(turns)
	defer end()
	began := time.Now()
	response, err := s.runs.Infer(ctx, s.request(leader(turns).call, m.gather(turns), wantedBy(turns)))
	if err != nil {
		return err
	}
	return m.distribute(response, turns, began)
}

// leader is the first request of a round.
func leader(turns []*turn) *turn {
	for _, c := range turns {
		if c != nil {
			return c
		}
	}
	return nil
}

// wantedBy is every output that a request of the round wants, each once.
func wantedBy(turns []*turn) []string {
	var all []string
	seen := map[string]bool{}
	for _, c := range turns {
		if c == nil {
			continue
		}
		for _, name := range c.call.want {
			if !seen[name] {
				seen[name] = true
				all = append(all, name)
			}
		}
	}
	return all
}

// together returns a context that ends when nobody waits for any request of the round any more.
func together(turns []*turn) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var waiting atomic.Int32
	var stops []func() bool
	depth := 0
	for _, c := range turns {
		if c != nil {
			waiting.Add(1)
			depth = max(depth, edgewise.CallOf(c.call.ctx).Depth)
		}
	}
	for _, c := range turns {
		if c != nil {
			stops = append(stops, context.AfterFunc(c.call.ctx, func() {
				if waiting.Add(-1) == 0 {
					cancel()
				}
			}))
		}
	}
	if depth > 0 {
		ctx = edgewise.WithCall(ctx, edgewise.Call{Depth: depth})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
