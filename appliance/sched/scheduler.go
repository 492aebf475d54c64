// Package sched stands in front of a loaded version: it checks requests against the model, queues them within a bound,
// runs them on lanes and measures. A request has exactly one answer: its own.
package sched

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Config configures a Scheduler.
type Config struct {
	Lanes    int // requests that run at the same time, each on its own locked thread; at least 1
	MaxQueue int // requests that wait; one more is refused as Busy. A model's own max_queue_size goes first
	Logger   *slog.Logger
}

// Scheduler is the Servable of one version: one queue, and lanes that take from it in the order of arrival.
type Scheduler struct {
	version  *edgewise.Version
	instance edgewise.Instance
	checker  *checker
	policy   policy
	queue    *queue
	measured *meter
	logger   *slog.Logger

	lanes sync.WaitGroup // running lanes
	lent  sync.WaitGroup // responses whose memory belongs to the instance
}

var _ edgewise.Servable = (*Scheduler)(nil)

// New starts the lanes of v on an instance, which the Scheduler owns from then on.
func New(v *edgewise.Version, instance edgewise.Instance, c Config) *Scheduler {
	p := policyOf(v.Model, c.MaxQueue)
	s := &Scheduler{
		version: v, instance: instance, checker: newChecker(v.Model), policy: p,
		queue: newQueue(p.maxQueue), measured: newMeter(), logger: c.Logger,
	}
	for range max(c.Lanes, 1) {
		s.lanes.Go(s.lane)
	}
	return s
}

// Infer checks a request, queues it and waits for its answer. When ctx ends, or its time in the queue is over, while it
// is still queued, it is withdrawn at once; when it is running, Infer waits for the run to end.
func (s *Scheduler) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	start := time.Now()
	response, err := s.infer(ctx, req, start)
	if err != nil {
		s.measured.failed(time.Since(start), reasonOf(err))
		return nil, err
	}
	s.measured.succeeded(time.Since(start), response.Timing)
	return response, nil
}

func (s *Scheduler) infer(ctx context.Context, req *edgewise.Request, start time.Time) (*edgewise.Response, error) {
	j, err := s.checker.check(req)
	if err != nil {
		return nil, err
	}
	j.ctx, j.arrived = ctx, start
	if err := s.queue.push(j); err != nil {
		return nil, s.refusal(err)
	}
	s.await(ctx, j, s.policy.timeout(req.Timeout))
	if j.err != nil {
		return nil, j.err
	}
	return s.respond(req, j), nil
}

// await returns when j has its answer, or has been withdrawn from the queue with j.err set.
func (s *Scheduler) await(ctx context.Context, j *job, timeout time.Duration) {
	var expired <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-j.done:
		return
	case <-ctx.Done():
		if s.queue.remove(j) {
			j.err = ctx.Err()
			return
		}
	case <-expired:
		if s.queue.remove(j) {
			j.err = &edgewise.Error{Op: "sched.Infer", Kind: edgewise.Unavailable, Model: s.version.ID, Err: errTimeout}
			return
		}
	}
	<-j.done
}

// respond makes the response of a job that ran. Its outputs stay lent until the receiver releases them.
func (s *Scheduler) respond(req *edgewise.Request, j *job) *edgewise.Response {
	return &edgewise.Response{
		ID: req.ID, Model: s.version.ID, Outputs: j.result.Outputs,
		Timing: edgewise.Timing{
			Queue: j.started.Sub(j.arrived), Input: j.result.Input, Infer: j.result.Infer, Output: j.result.Output, Batch: j.batch,
		},
		Free: func() {
			j.result.Free()
			s.lent.Done()
		},
	}
}

// Warm runs requests before the version is announced as ready. They leave no trace in the statistics.
func (s *Scheduler) Warm(ctx context.Context, requests []*edgewise.Request) error {
	for _, req := range requests {
		response, err := s.Infer(ctx, req)
		if err != nil {
			return edgewise.Errorf("sched.Warm", edgewise.KindOf(err), "warm-up %q: %w", req.ID, err)
		}
		response.Release()
	}
	s.measured.reset()
	return nil
}

// Statistics returns what has been measured so far.
func (s *Scheduler) Statistics() edgewise.Statistics {
	stats := s.measured.read()
	stats.Pending = int64(s.queue.len())
	return stats
}

// Close refuses new requests, runs those that are queued, waits until every response has been released and closes the
// instance.
func (s *Scheduler) Close() error {
	s.queue.close()
	s.lanes.Wait()
	s.lent.Wait()
	return s.instance.Close()
}
