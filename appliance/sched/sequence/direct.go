package sequence

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// directBatcher holds the slots of the strategy direct with batches: each instance has as many as the batch has rows,
// and a sequence keeps its row. An instance runs one batch after the other, over all rows up to the last one that has a
// request. The rows between that have none get READY = false and a copy of another row's data. A batch is one request
// of the model, unless the instance is an Answerer: that is given a request for each row.
type directBatcher struct {
	of          *Batcher
	rows        int
	delay       time.Duration // a batch waits so long for the utilization below
	utilization float64       // part of all rows that have a request
	running     sync.WaitGroup
	table       *table
	loops       []*instanceLoop
}

// slot is a place of an instance: with the strategy direct and batches a row.
type slot struct {
	instance int // its number, from 1
	loop     *instanceLoop
	row      int
}

// instanceLoop is one instance: a goroutine that runs its batches. The table's mutex guards rows, used and leaving.
type instanceLoop struct {
	direct  *directBatcher
	number  int         // from 1, which no other loop has at the same time
	rows    []*sequence // nil: free
	used    int
	leaving bool          // it accepts no more sequences, and ends with its last one
	woken   chan struct{} // one token: look again
	ended   chan struct{} // closed: nothing is left to do
	buffers map[string][]byte
}

func newDirectBatcher(b *Batcher) *directBatcher {
	strategy := b.version.Model.SequenceBatching.Direct
	d := &directBatcher{of: b, rows: candidates(b.version.Model), table: b.table}
	if strategy != nil {
		d.delay = time.Duration(strategy.MaxQueueDelay) * time.Microsecond
		d.utilization = float64(strategy.MinimumSlotUtilization)
	}
	return d
}

// resize adds instances, or lets the last ones end when their sequences do.
func (d *directBatcher) resize(instances int) {
	staying := d.loops[:0:0]
	for _, l := range d.loops {
		l.leaving = len(staying) >= instances
		if !l.leaving {
			staying = append(staying, l)
		}
	}
	for n := len(staying); n < instances; n++ {
		l := &instanceLoop{
			direct: d, number: d.free(), rows: make([]*sequence, d.rows), buffers: map[string][]byte{},
			woken: make(chan struct{}, 1), ended: make(chan struct{}),
		}
		d.loops = append(d.loops, l)
		d.running.Go(l.loop)
	}
	for _, l := range slices.Clone(d.loops) {
		l.retire()
	}
}

// free is the lowest number that no instance has.
func (d *directBatcher) free() int {
	number := 1
	for slices.ContainsFunc(d.loops, func(l *instanceLoop) bool { return l.number == number }) {
		number++
	}
	return number
}

// retire ends an instance that is leaving and has no sequences.
func (l *instanceLoop) retire() {
	if !l.leaving || l.used > 0 {
		return
	}
	if i := slices.Index(l.direct.loops, l); i >= 0 {
		l.direct.loops = slices.Delete(l.direct.loops, i, i+1)
		close(l.ended)
	}
}

// close ends every instance. No sequence is left.
func (d *directBatcher) close() {
	d.table.mu.Lock()
	d.resize(0)
	d.table.mu.Unlock()
	d.running.Wait()
}

// take gives a sequence the lowest free row, of the first instance that has it free.
func (d *directBatcher) take(s *sequence) bool {
	best := slot{}
	for _, l := range d.loops {
		if l.leaving || l.used == len(l.rows) {
			continue
		}
		for row := range l.rows {
			if l.rows[row] == nil {
				if best.loop == nil || row < best.row {
					best = slot{l.number, l, row}
				}
				break
			}
		}
	}
	if best.loop == nil {
		return false
	}
	best.loop.rows[best.row] = s
	best.loop.used++
	s.slot = best
	return true
}

func (d *directBatcher) give(s *sequence) {
	l := s.slot.loop
	l.rows[s.slot.row] = nil
	l.used--
	s.slot = slot{}
	l.retire()
}

func (d *directBatcher) advance(s *sequence) {
	select {
	case s.slot.loop.woken <- struct{}{}:
	default:
	}
}

// loop runs batches until the instance has ended.
func (l *instanceLoop) loop() {
	for {
		batch, wait := l.form(time.Now())
		if len(batch) > 0 {
			l.run(batch)
			continue
		}
		var due <-chan time.Time
		if wait > 0 {
			due = time.After(wait)
		}
		select {
		case <-l.woken:
		case <-due:
		case <-l.ended:
			return
		}
	}
}

// form starts the requests of the next batch, by row; a row without one is nil, also one whose request does not fit.
// An empty batch means that there is nothing to run, or not before wait is over.
func (l *instanceLoop) form(now time.Time) (batch []*request, wait time.Duration) {
	t := l.direct.table
	t.mu.Lock()
	defer t.mu.Unlock()
	first, ready := (*request)(nil), 0
	for _, s := range l.rows {
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
	if age < l.direct.delay && float64(ready) < l.direct.utilization*float64(len(l.rows)) && !t.closed {
		return nil, l.direct.delay - age
	}
	for row, s := range l.rows {
		if s == nil || len(s.queue) == 0 {
			continue
		}
		for len(batch) <= row {
			batch = append(batch, nil)
		}
		if l.join(first, s.queue[0]) {
			batch[row] = t.start(s)
		}
	}
	return batch, 0
}

// join tells whether d can run in one batch with c: the same inputs and states in the same shapes. A request with
// parameters runs by itself, unless each row is a request. The states of sequences that have no request running stay as they are.
func (l *instanceLoop) join(c, d *request) bool {
	a, b := c.call, d.call
	if c == d {
		return true
	}
	if !l.direct.of.runs.Answers() && (len(a.request.Parameters) > 0 || len(b.request.Parameters) > 0) {
		return false
	}
	states := l.direct.of.states
	return alikeTensors(a.inputs, b.inputs) && alikeTensors(
		states.peek(&c.of.state, c.start), states.peek(&d.of.state, d.start),
	)
}

func alikeTensors(a, b []edgewise.Tensor) bool {
	return slices.EqualFunc(a, b, func(x, y edgewise.Tensor) bool { return x.Name == y.Name && x.Shape.Equal(y.Shape) })
}

// run runs a batch and answers its requests. A batch that fails is run again request by request, each in its own row;
// requests whose clients have left are not run again.
func (l *instanceLoop) run(batch []*request) {
	requests := 0
	for _, c := range batch {
		if c != nil {
			requests++
		}
	}
	err := l.attempt(batch)
	again := err != nil && requests > 1
	if again {
		l.direct.of.logger.Debug(
			"a batch of sequences failed and is run request by request", "model", l.direct.of.version.ID.String(),
			"requests", requests, "error", err,
		)
	}
	for row, c := range batch {
		if c == nil {
			continue
		}
		if again {
			if err = c.call.ctx.Err(); err == nil {
				single := make([]*request, row+1)
				single[row] = c
				err = l.attempt(single)
			}
		}
		l.answer(c, err)
	}
}

// answer ends the wait of the request's owner, and continues the sequence. err is that of the whole batch.
func (l *instanceLoop) answer(c *request, err error) {
	switch {
	case err != nil:
		c.call.err = err
	case c.call.err == nil && c.call.response == nil:
		c.call.err = edgewise.Errorf(
			"sequence.run", edgewise.Internal, "model %v: a batch left a request without an answer",
			l.direct.of.version.ID,
		)
	}
	l.direct.table.finish(c, c.left(c.call.err))
	c.granted <- struct{}{}
}

// attempt runs a batch. Its requests have their responses when it returns nil, or an error of their own.
func (l *instanceLoop) attempt(batch []*request) error {
	b := l.direct.of
	for _, c := range batch {
		if c != nil {
			c.call.response, c.call.err = nil, nil
		}
	}
	if len(batch) == 1 {
		response, err := b.single(batch[0].call.ctx, batch[0])
		batch[0].call.response = response
		return err
	}
	ctx, end := together(batch)
	defer end()
	began := time.Now()
	if b.runs.Answers() {
		l.ask(ctx, batch, began)
		return nil
	}
	req := b.request(leader(batch).call, l.gather(batch), wantedBy(batch))
	req.Instance = l.number
	for _, c := range batch {
		if c != nil && len(c.call.request.Callers) > len(req.Callers) {
			req.Callers = c.call.request.Callers
		}
	}
	response, err := b.runs.Infer(ctx, req)
	if err != nil {
		return err
	}
	return l.distribute(response, batch, began)
}

// ask gives each row of a batch to the instance as a request, those that have none too. A request that fails is not run
// again, since the process may have kept a state of it.
func (l *instanceLoop) ask(ctx context.Context, batch []*request, began time.Time) {
	b, first := l.direct.of, leader(batch)
	states := b.states.of(&first.of.state, first.start)
	rows := make([]sched.Row, len(batch))
	for i, c := range batch {
		if c != nil {
			rows[i] = sched.Row{Context: c.call.ctx, Request: b.alone(c)}
			continue
		}
		empty := &call{request: &edgewise.Request{}, want: first.call.want}
		rows[i] = sched.Row{Context: ctx, Request: b.request(empty, b.inputs(first.call.inputs, signal{}, states), empty.want)}
		rows[i].Request.Instance = l.number
		b.spare.Add(1)
	}
	b.runs.InferRows(ctx, rows)
	for i, c := range batch {
		if c == nil {
			rows[i].Response.Release()
			continue
		}
		if c.call.err = rows[i].Err; c.call.err == nil {
			c.call.response, c.call.err = b.own(c, rows[i].Response, began)
		}
	}
}

// leader is the first request of a batch.
func leader(batch []*request) *request {
	return batch[slices.IndexFunc(batch, func(c *request) bool { return c != nil })]
}

// wantedBy lists the outputs that requests of the batch want, each once.
func wantedBy(batch []*request) (all []string) {
	for _, c := range batch {
		if c == nil {
			continue
		}
		for _, name := range c.call.want {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// together returns a context that ends when every client of the batch has left.
func together(batch []*request) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var waiting atomic.Int32
	var stops []func() bool
	for _, c := range batch {
		if c != nil {
			waiting.Add(1)
		}
	}
	for _, c := range batch {
		if c != nil {
			stops = append(stops, context.AfterFunc(c.call.ctx, func() {
				if waiting.Add(-1) == 0 {
					cancel()
				}
			}))
		}
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
