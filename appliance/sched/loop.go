package sched

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/sched/ratelimit"
	"github.com/edgewise-ai/edgewise/appliance/sched/waits"
)

// instanceLoop runs one batch after the other. A request that finds it idle runs its batch in its own goroutine, so that
// no other thread is woken on the way to the instance and back (decision 0069). The loop's goroutine runs what has
// queued behind that, and waits where something is in the way.
type instanceLoop struct {
	s          *Scheduler
	lease      *cores.Lease      // on the cores that a run needs
	permit     *ratelimit.Permit // for the resources that a run needs; nil: none
	jobs       []*job            // the batch, or the jobs considered for one
	hurdle     waits.Hurdle      // what stops it, as the queue has noted
	queued     bool              // others wait behind the batch
	background bool              // it runs beside the queue, in time that no other wants
	yielded    bool              // to goroutines that are about to push, for the next batch
	wake       chan struct{}     // one token, for the loop's goroutine: it is the owner again
	leaving    []*job
	group      *group // for the next batch of several
	gatherer   gatherer
	timer      *time.Timer // wakes the instance loops; nil until one is needed
}

// Resize changes how many batches run at the same time, n at least 1, while requests are served. Loops that are too
// many end after the batch that they are running. After Close it does nothing.
func (s *Scheduler) Resize(n int) {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.loops.wanted = max(n, 1)
	for ; q.loops.running < q.loops.wanted; q.loops.running++ {
		l := &instanceLoop{
			s: s, lease: s.account.Lease(), permit: s.claim.Permit(), gatherer: newGatherer(s.instance),
			group: newGroup(), wake: make(chan struct{}, 1),
		}
		s.loops.Go(l.loop)
	}
	q.wakeAll()
}

// loops is how many instance loops a queue has and how many it is to have. The queue's mutex guards it.
type loops struct{ running, wanted int }

// tooMany tells whether instance loops are to end.
func (l *loops) tooMany() bool { return l.running > l.wanted }

// leave tells an instance loop to end, when there are too many.
func (l *loops) leave() bool {
	if !l.tooMany() {
		return false
	}
	l.running--
	return true
}

// loop runs until the queue is closed and empty, or there are more loops than are wanted.
func (l *instanceLoop) loop() {
	defer l.lease.Release()
	defer l.permit.Give()
	defer l.gatherer.release()
	for l.s.queue.take(l) {
		l.run()
		l.permit.Pass()
		l.lease.Pass()
	}
	l.group.cancel()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// lead runs the batch of j in the goroutine of its request, which has claimed the loop. Where something is in the way, it
// leaves j in the queue.
func (l *instanceLoop) lead(j *job) {
	if !l.s.queue.lead(l, j) {
		return
	}
	// Deferred: a handler that catches a panic does not keep the instance.
	defer l.s.queue.led(l)
	defer l.lease.Pass()
	defer l.permit.Pass()
	defer l.watch(j)()
	l.run()
}

// watch counts j as abandoned when its client leaves while its batch runs, which nobody else is there to notice. A
// request that runs by itself needs no watch: the instance has its context. end returns when nothing uses j.
func (l *instanceLoop) watch(j *job) (end func()) {
	if j.group == nil {
		return func() {}
	}
	noted := make(chan struct{})
	stop := context.AfterFunc(j.ctx, func() {
		defer close(noted)
		j.group.abandon(j)
	})
	return func() {
		if !stop() {
			<-noted
		}
	}
}

// clear returns when an obstacle is gone.
func (l *instanceLoop) clear(why obstacle) {
	switch why {
	case noBatch:
		<-l.wake
	case noPermit:
		l.lease.Release()
		l.permit.Wait()
	case noCores:
		l.lease.Wait()
	}
}

// wakeAfter makes the waiting instance loops look at the queue again after a time; 0 does nothing.
func (l *instanceLoop) wakeAfter(d time.Duration) {
	switch {
	case d <= 0:
	case l.timer == nil:
		l.timer = time.AfterFunc(d, l.s.queue.wake)
	default:
		l.timer.Reset(d)
	}
}

// dropDead answers the jobs that are cancelled or overdue and returns the others.
func (l *instanceLoop) dropDead(jobs []*job) []*job {
	now := time.Now()
	alive, dead := jobs[:0], []*job(nil)
	for _, j := range jobs {
		j.started = now
		switch {
		case j.ctx.Err() != nil:
			j.err = j.ctx.Err()
		case !j.overdue.IsZero() && !now.Before(j.overdue) && !l.s.policies.of(j.level).delays:
			j.err = l.s.refusal(errTimeout)
		default:
			alive = append(alive, j)
			continue
		}
		if j.group != nil {
			j.group.abandon(j)
		}
		dead = append(dead, j)
	}
	if len(dead) > 0 {
		l.answer(dead)
	}
	return alive
}

// run executes the batch that was taken. A batch that fails is run again request by request, so that one bad request
// costs its neighbours time and nothing else.
func (l *instanceLoop) run() {
	ctx := context.Background()
	if taken := len(l.jobs); taken > 1 {
		g := l.group
		l.group, ctx = newGroup(), g.ctx
		defer g.cancel()
		g.start(taken)
	}
	jobs := l.dropDead(l.jobs)
	if l.s.answerer != nil {
		if len(jobs) == 1 {
			ctx = jobs[0].ctx
		}
		l.ask(ctx, jobs)
		return
	}
	if len(jobs) > 1 {
		err := l.attempt(ctx, jobs, jobs[0].started)
		if err == nil {
			l.lease.End()
			l.answer(jobs)
			return
		}
		l.explain(err, jobs)
	}
	for i, j := range jobs {
		if len(jobs) > 1 { // the batch has failed; of one job, dropDead has noted when it began
			j.started = time.Now()
		}
		if j.err = j.ctx.Err(); j.err == nil {
			j.err = l.attempt(j.ctx, jobs[i:i+1], j.started)
		}
		if i == len(jobs)-1 {
			l.lease.End()
		}
		l.answer(jobs[i : i+1])
	}
}

// explain logs why a batch failed. A model whose outputs cannot be split is not batched any more.
func (l *instanceLoop) explain(err error, jobs []*job) {
	if _, ok := errors.AsType[*unsplittable](err); ok {
		l.s.apart("the outputs of a batch could not be split: " + err.Error())
		l.s.logger.Error(
			"batching is off: the outputs of a batch cannot be split", "model", l.s.version.ID.String(), "error", err,
		)
		return
	}
	l.s.logger.Debug(
		"a batch failed and is run request by request", "model", l.s.version.ID.String(), "requests", len(jobs),
		"error", err,
	)
}

// unsplittable marks the error of a split.
type unsplittable struct{ error }

func (u *unsplittable) Unwrap() error { return u.error }

// attempt executes jobs as one batch. They have their outputs when it returns nil. A panic of the instance, which is
// our own bug, becomes an Internal error.
func (l *instanceLoop) attempt(ctx context.Context, jobs []*job, started time.Time) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = l.s.panicked(cause)
		}
	}()
	woken, release, err := l.rouse(ctx, jobs)
	if err != nil {
		return err
	}
	defer release()
	started = started.Add(woken) // what a start takes says nothing of the runs
	total := elements(jobs)
	l.s.padding.fill(jobs)
	inputs, gathers := jobs[0].inputs, l.gatherer.needed(jobs) || l.s.ragged != nil
	if gathers {
		if inputs, err = l.gatherer.gather(jobs, total); err != nil {
			return err
		}
		if inputs, err = l.s.ragged.inputs(inputs, jobs); err != nil {
			return err
		}
	}
	gathered := started
	if gathers {
		gathered = time.Now()
	}
	compared, solo := l.solo()
	if l.s.guest {
		ctx = l.lease.Context(ctx)
	}
	want := wanted(jobs)
	result, err := l.s.instance.Run(ctx, inputs, want, l.options(jobs, solo))
	l.gatherer.settle()
	if err != nil {
		return err
	}
	ran := time.Now()
	if !l.background {
		l.s.queue.pace.add(ran.Sub(gathered))
	}
	if compared {
		l.compare(solo, result.Wide, ran.Sub(gathered))
	}
	if err := l.distribute(result, jobs, total); err != nil {
		result.Free()
		return err
	}
	choose(jobs, want)
	timing := edgewise.Timing{
		Input: result.Input, Infer: result.Infer, Output: result.Output, Batch: total, Guest: result.Guest, Wake: woken,
	}
	if gathers {
		timing.Input += gathered.Sub(started)
		timing.Output += time.Since(ran)
	}
	if !l.background {
		l.s.measured.executed(ran, timing)
	}
	free := ShareResult(result, len(jobs), &l.s.results)
	for _, j := range jobs {
		j.free, j.timing = free, timing
		j.tell(&j.timing)
	}
	return nil
}

// rouse waits for the process of an instance that rests, which stays until release is called: jobs wait in the queue for so
// long. Others have the cores meanwhile: a load takes long.
func (l *instanceLoop) rouse(ctx context.Context, jobs []*job) (waited time.Duration, release func(), err error) {
	if l.s.resident == nil || !l.s.resident.Resting() {
		return 0, func() {}, nil
	}
	l.meet(waits.Loading)
	defer l.meet(waits.None)
	begin, resume := time.Now(), cores.Suspend(l.lease.Context(ctx))
	release, err = l.s.resident.Wake(ctx)
	resume()
	waited = time.Since(begin)
	for _, j := range jobs {
		j.waiting.Load(waited)
		j.started = j.started.Add(waited)
	}
	return waited, release, err
}

// meet notes what stops the loop. One that runs in the background stops nobody.
func (l *instanceLoop) meet(h waits.Hurdle) {
	if l.background {
		return
	}
	l.s.queue.mu.Lock()
	defer l.s.queue.mu.Unlock()
	l.s.queue.meet(l, h)
}

// options are those of a run: what the request says, when it runs by itself; of several, the longest list of callers,
// and no Pictures, since their outputs are split; whether it is a solo run; and on which core it is best kept, when it is
// long enough for that to matter.
func (l *instanceLoop) options(jobs []*job, solo bool) edgewise.RunOptions {
	o := jobs[0].options
	for _, j := range jobs[1:] {
		if o.Pictures = nil; len(j.options.Callers) > len(o.Callers) {
			o.Callers = j.options.Callers
		}
	}
	o.Background = l.background
	if o.Solo = solo; !solo && !l.background && !l.s.guest && l.s.queue.pace.read() >= shortestSolo {
		o.Core, o.Queued = l.lease.Core(), l.queued
	}
	return o
}

// distribute checks the outputs and gives each job its own.
func (l *instanceLoop) distribute(result *edgewise.Result, jobs []*job, total int) error {
	if err := l.s.checker.finish(result); err != nil {
		return err
	}
	if l.s.ragged != nil {
		if err := l.s.ragged.distribute(result.Outputs, jobs, total); err != nil {
			return &unsplittable{err}
		}
		return nil
	}
	if len(jobs) == 1 {
		jobs[0].outputs = result.Outputs
		return l.s.padding.cut(jobs)
	}
	if err := split(result.Outputs, jobs, total); err != nil {
		return &unsplittable{err}
	}
	if err := l.s.padding.cut(jobs); err != nil {
		return &unsplittable{err}
	}
	return nil
}

func (s *Scheduler) panicked(cause any) error {
	s.logger.Error(
		"instance panicked", "model", s.version.ID.String(), "panic", fmt.Sprint(cause), "stack", string(debug.Stack()),
	)
	return edgewise.Errorf("sched.run", edgewise.Internal, "model %v: its instance panicked: %v", s.version.ID, cause)
}

// answer lets the answers of jobs leave, as far as the order of responses allows. A job must not be touched afterwards.
func (l *instanceLoop) answer(jobs []*job) {
	l.leaving = l.s.queue.finish(jobs, l.leaving[:0])
	for i, j := range l.leaving {
		l.leaving[i] = nil
		j.done <- struct{}{}
	}
}
