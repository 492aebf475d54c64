// Package sched runs the requests to a loaded version: it checks them against the model, queues them within a bound,
// forms batches, runs these on instance loops and measures. A request has exactly one answer: its own.
package sched

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/sched/ratelimit"
	"github.com/edgewise-ai/edgewise/ordering"
)

// Config configures a Scheduler.
type Config struct {
	Instances   int              // batches that run at the same time; at least 1
	Cores       *cores.Budget    // of all versions; nil: runs take as many cores as they like
	Threads     int              // cores that one run keeps busy; 0: none, as on another device
	SoloThreads int              // cores of a run that has the machine to itself; 0: as many as any run
	Claim       *ratelimit.Claim // on resources of the rate limiter, which Close closes; nil: nothing is needed
	Padding     *Padding         // of requests that run together; nil: none
	Proof       *Proof           // of whether requests may run together; nil: the configuration says that they may
	MaxQueue    int              // requests that wait; one more is refused as Busy. A model's own max_queue_size goes first
	Hold        Hold             // for tests; zero: nothing is held back
	Shared      bool             // another Scheduler of the same instance owns it, and closes it after this one
	Logger      *slog.Logger
}

// Scheduler is the Servable of one version: a queue with priority levels, and instance loops that take batches from it.
// A loop that is free never waits for more requests unless the model's configuration sets a delay.
type Scheduler struct {
	version  *edgewise.Version
	instance edgewise.Instance
	checker  *Checker
	padding  *Padding
	ragged   *ragged
	policies *policies // of the priority levels
	queue    *queue
	jobs     *jobs
	answerer *answerer         // nil: batches are run
	resident edgewise.Resident // the instance, when its process comes and goes; nil: it stays
	measured *Meter
	logger   *slog.Logger

	proof    *Proof
	batching atomic.Pointer[edgewise.Batching]

	account *cores.Account
	solo    soloTrial
	claim   *ratelimit.Claim
	spare   *background    // nil: requests in the background queue like others
	hold    int            // requests for which the queue waits once the version is warm
	shared  bool           // another Scheduler closes the instance
	guest   bool           // runs may call other models
	loops   sync.WaitGroup // running instance loops
	results sync.WaitGroup // whose memory belongs to the instance
}

var (
	_ edgewise.Servable = (*Scheduler)(nil)
	_ edgewise.Isolated = (*Scheduler)(nil)
)

// metered is an Instance that measures its guests.
type metered interface {
	// GuestStatistics returns what has been measured since the version was loaded. It is cheap.
	GuestStatistics() edgewise.GuestStatistics
}

// padder is an Instance that can run a batch with more rows than it was given, which it makes up and takes out again.
type padder interface {
	// AllowPadding says that the rows of a batch do not depend on each other. Before it was called no row is added. It is
	// safe for concurrent use, and cheap when it is called again.
	AllowPadding()
}

// New starts the instance loops of v on an instance, which the Scheduler owns from then on, unless it is Shared.
func New(v *edgewise.Version, instance edgewise.Instance, c Config) *Scheduler {
	policies := policiesOf(v.Model)
	s := &Scheduler{
		version: v, instance: instance, checker: NewChecker(v.Model),
		padding: c.Padding, ragged: newRagged(v.Model), policies: policies,
		queue: newQueue(v.Model, policies, c.MaxQueue), jobs: newJobs(), measured: NewMeter(), logger: c.Logger,
		account: c.Cores.Open(v.ID, c.Threads), claim: c.Claim, proof: c.Proof,
		hold: c.Hold.Queued, shared: c.Shared,
	}
	if s.answerer = newAnswerer(v.Model, instance); s.answerer != nil { // no requests are merged: the configuration decides
		s.proof, s.padding, s.ragged = nil, nil, nil
	}
	_, s.guest = instance.(metered)
	s.resident, _ = instance.(edgewise.Resident)
	s.judge()
	if s.account != nil {
		s.solo.threads = c.SoloThreads
	}
	s.queue.waits.Account = s.account
	s.spare = newBackground(s, c)
	s.Resize(c.Instances)
	return s
}

// Infer checks a request, queues it and waits for its answer. When ctx ends, or its time in the queue is over, while it
// is still queued, it is withdrawn at once; when it is running, Infer waits for the run to end.
func (s *Scheduler) Infer(ctx context.Context, req *edgewise.Request) (resp *edgewise.Response, err error) {
	start, behind := req.Came(), req.Background && s.spare != nil
	defer func() {
		if !behind {
			s.measured.Count(start, resp, err)
		}
	}()
	if err := s.answerer.admits(s, req); err != nil {
		return nil, err
	}
	j := s.jobs.get()
	defer s.jobs.put(j)
	if err := s.checker.check(req, j); err != nil {
		return nil, err
	}
	if err := s.padding.measure(j, s.checker); err != nil {
		return nil, err
	}
	j.ragged = s.ragged
	j.ctx, j.arrived, j.level = ctx, start, s.policies.level(req.Priority)
	j.options = edgewise.RunOptions{
		Parameters: req.Parameters, Callers: req.Callers, Pictures: req.Pictures,
		Trial: req.Trial,
	}
	if s.answerer != nil {
		j.request = req
	}
	s.limit(j, req.Timeout)
	if len(req.Callers) > 0 {
		defer cores.Suspend(ctx)()
	}
	if behind {
		if err := s.spare.run(ctx, j); err != nil {
			return nil, err
		}
		return s.response(req, j), nil
	}
	idle, err := s.queue.push(j)
	if err != nil {
		return nil, s.refusal(err)
	}
	ordering.Queued(ctx)
	switch {
	case idle == nil:
	case s.answerer != nil && s.answerer.decoupled: // the answers to others in its batch may take long
		s.queue.note(j)
		idle.wake <- struct{}{}
	default:
		idle.lead(j)
	}
	s.await(j)
	if j.err != nil {
		return nil, j.err
	}
	return s.response(req, j), nil
}

// response is the answer to a request whose job has run.
func (s *Scheduler) response(req *edgewise.Request, j *job) *edgewise.Response {
	return &edgewise.Response{
		ID: req.ID, Model: s.version.ID, Outputs: j.outputs, Parameters: j.parameters, Timing: j.timing, Empty: j.empty,
		Free: j.free,
	}
}

// limit sets how long j may wait. A timeout that the model's queue policy sets is no reason to run sooner, as in
// Triton: who waits longer for a batch is refused.
func (s *Scheduler) limit(j *job, requested time.Duration) {
	p := s.policies.of(j.level)
	if timeout := p.timeout(requested); timeout > 0 {
		j.overdue = j.arrived.Add(timeout)
	}
	if deadline, ok := j.ctx.Deadline(); ok {
		j.ends = deadline
	}
	if p.defaultTimeout == 0 && !j.overdue.IsZero() && (j.ends.IsZero() || j.overdue.Before(j.ends)) {
		j.ends = j.overdue
	}
}

// await returns when j has its answer, or has been withdrawn from the queue with j.err set.
func (s *Scheduler) await(j *job) {
	select {
	case <-j.done:
		return
	default:
	}
	var expired <-chan time.Time
	if !j.overdue.IsZero() && !s.policies.of(j.level).delays {
		timer := time.NewTimer(time.Until(j.overdue))
		defer timer.Stop()
		expired = timer.C
	}
	gone := j.ctx.Done()
	if gone == nil && expired == nil {
		<-j.done
		return
	}
	select {
	case <-j.done:
		return
	case <-expired:
		if s.queue.withdraw(j) {
			j.err = s.refusal(errTimeout)
			return
		}
		s.answered(j)
	case <-gone:
		s.left(j)
	}
}

// answered waits for the answer of a job that an instance loop has taken.
func (s *Scheduler) answered(j *job) {
	select {
	case <-j.done:
	case <-j.ctx.Done():
		s.left(j)
	}
}

// left withdraws a job whose client has gone, or waits for its run to end.
func (s *Scheduler) left(j *job) {
	if s.queue.withdraw(j) {
		j.err = j.ctx.Err()
		return
	}
	if j.group != nil {
		j.group.abandon(j)
	}
	<-j.done
}

// AllocBody returns n bytes of memory of the instance for the inputs of a request, nil when it has none.
func (s *Scheduler) AllocBody(n int) (data []byte, free func()) {
	if l, ok := s.instance.(bodyMemory); ok {
		return l.AllocBody(n)
	}
	return nil, nil
}

// Verify answers a request before the version is announced as ready. It waits for no others to fill its batch, whatever
// max_queue_delay_microseconds says. The answer is dropped. Verify is called once at a time, and not after Warm.
func (s *Scheduler) Verify(ctx context.Context, req *edgewise.Request) error {
	s.queue.eager.Store(true)
	defer s.queue.eager.Store(false)
	trial := *req
	trial.Each = func(r *edgewise.Response) error {
		r.Release()
		return nil
	}
	response, err := s.Infer(ctx, &trial)
	if err != nil {
		return err
	}
	response.Release()
	return nil
}

// Warm finds out whether requests may be merged, runs requests before the version is announced as ready, and then tries
// whether batches pay. None of that leaves a trace in the statistics.
func (s *Scheduler) Warm(ctx context.Context, requests []*edgewise.Request) error {
	s.settle(ctx)
	for _, req := range requests {
		if err := s.Verify(ctx, req); err != nil {
			return edgewise.Errorf("sched.Warm", edgewise.KindOf(err), "warm-up %q: %w", req.ID, err)
		}
	}
	s.try(ctx)
	s.measured.Reset()
	s.queue.reset()
	if s.version.Model.DynamicBatching != nil {
		s.queue.hold(s.hold)
	}
	return nil
}

// Statistics returns what has been measured so far.
func (s *Scheduler) Statistics() edgewise.Statistics {
	stats := s.measured.Read()
	size, closed := s.queue.read()
	stats.Pending, stats.Closed, stats.Batching = int64(size), closed, s.batching.Load()
	if m, ok := s.instance.(metered); ok {
		stats.Guest = m.GuestStatistics()
	}
	if p, ok := s.Process(); ok {
		stats.Process = &p
	}
	return stats
}

// Process returns what is known of the process in which the instance runs; see edgewise.Isolated.
func (s *Scheduler) Process() (p edgewise.Process, ok bool) {
	if isolated, can := s.instance.(edgewise.Isolated); can {
		return isolated.Process()
	}
	return p, false
}

// Ended is closed when the instance's process is not started again; see edgewise.Isolated.
func (s *Scheduler) Ended() <-chan struct{} {
	if isolated, can := s.instance.(edgewise.Isolated); can {
		return isolated.Ended()
	}
	return nil
}

// Close refuses new requests, runs those that are queued, waits until every call has ended and every response has been
// released and closes the instance, unless it is Shared.
func (s *Scheduler) Close() error {
	s.queue.close()
	s.loops.Wait()
	s.spare.close()
	s.answerer.wait()
	s.results.Wait()
	s.claim.Close()
	if s.shared {
		return nil
	}
	return s.instance.Close()
}
