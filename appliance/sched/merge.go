package sched

import (
	"context"
	"fmt"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
)

// judge decides from the configuration and the proof, before the version has run, whether requests are merged.
func (s *Scheduler) judge() {
	m := s.version.Model
	b := edgewise.Batching{Independent: s.proof == nil || s.proof.Declared != "", Merged: !s.queue.single.Load()}
	switch {
	case m.MaxBatchSize == 0:
		b.Independent, b.Reason = false, "max_batch_size is 0"
	case m.MaxBatchSize == 1:
		b.Reason = "max_batch_size is 1"
	case s.answerer != nil && s.guest:
		b.Merged, b.Reason = false, "a step that streams runs its requests one by one"
	case !b.Merged:
		b.Reason = "the configuration has no dynamic_batching"
	case s.proof == nil:
		b.Reason = "the configuration says so"
	case s.proof.Declared != "":
		b.Reason = s.proof.Declared
	case s.proof.Refuted != "":
		b.Merged, b.Reason = false, s.proof.Refuted
	default:
		b.Merged, b.Reason = false, "the version has not run yet"
	}
	s.decide(b)
}

// settle makes the proof that the version needs, before it answers requests.
func (s *Scheduler) settle(ctx context.Context) {
	m := s.version.Model
	known := s.proof == nil || s.proof.Declared != "" || s.proof.Refuted != ""
	if known || m.MaxBatchSize < 2 || m.DynamicBatching == nil {
		s.report()
		return
	}
	decision := edgewise.Batching{
		Merged: true, Independent: true, Reason: "a trial at load found that rows do not depend on each other",
	}
	if refuted := s.prove(ctx); refuted != "" {
		decision = edgewise.Batching{Reason: refuted}
	}
	s.decide(decision)
	s.report()
}

// decide puts a decision into force.
func (s *Scheduler) decide(b edgewise.Batching) {
	s.batching.Store(&b)
	s.queue.single.Store(!b.Merged)
	if padder, ok := s.instance.(padder); ok && b.Independent {
		padder.AllowPadding()
	}
}

// apart ends the merging of requests for a reason that says nothing about rows.
func (s *Scheduler) apart(reason string) {
	s.decide(edgewise.Batching{Independent: s.batching.Load().Independent, Reason: reason})
}

// report logs the decision, for versions that have a batch dimension.
func (s *Scheduler) report() {
	if b := s.batching.Load(); s.version.Model.MaxBatchSize > 0 {
		s.logger.Info(
			"merging of requests into batches", "model", s.version.ID.String(), "merged", b.Merged, "reason", b.Reason,
		)
	}
}

const (
	trialTime    = 300 * time.Millisecond // a trial starts no new round after this, once trialLeast rounds count
	trialLongest = time.Second            // nor after this, once one round counts
	trialTimeout = 2 * time.Second        // and is given up after this
	trialLeast   = 3
	trialRounds  = 20
	trialSize    = 16       // elements of the large batch, at most, and as few as half of trialTime lets through
	trialBytes   = 32 << 20 // of the inputs of the large batch, at most; larger ones are not tried
	trialGain    = 1.2      // elements a second, large batch over small: below it batches do not pay
)

// try measures whether batches pay, on zeros, and switches them off when they do not. It does nothing for models that
// are not batched, whose configuration asks for batches explicitly, that have ragged inputs, whose inputs have variable
// sizes, or that answer requests one by one. A trial that fails changes nothing: a model need not accept zeros.
func (s *Scheduler) try(ctx context.Context) {
	if s.queue.single.Load() || s.queue.batcher.asked || s.ragged != nil || s.answerer != nil {
		return
	}
	size := trial.Size{Rows: 1, Open: -1, Bytes: trialBytes}
	one, err := s.trialInputs(size, trial.Zeros)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	if _, err := s.clock(ctx, one); err != nil { // its time does not count: it allocates memory
		return
	}
	took, err := s.clock(ctx, one)
	if err != nil {
		return
	}
	rows := max(min(s.queue.batcher.most, trialSize, trialBytes/max(bytesOf(one), 1), int(trialTime/2/max(took, 1))), 2)
	size.Rows = int64(rows)
	many, err := s.trialInputs(size, trial.Zeros)
	if err != nil {
		return
	}
	gain, ok := s.race(ctx, one, many, rows)
	if !ok {
		return
	}
	if gain < trialGain {
		s.apart(fmt.Sprintf("a batch of %d does not pay: it is %.2f times as fast as its rows one by one", rows, gain))
	}
	s.logger.Info(
		"tried whether batches pay", "model", s.version.ID.String(), "size", rows, "gain", gain, "batching",
		gain >= trialGain,
	)
}

// race runs both batches in turn and returns how many times as many elements a second the large one answers, the median of the
// rounds. The first round does not count, since its runs allocate memory. Those of the second round may allocate some, too: at least
// trialLeast rounds count, unless the trial has taken trialLongest before.
func (s *Scheduler) race(ctx context.Context, one, many []edgewise.Tensor, rows int) (gain float64, ok bool) {
	var gains []float64
	start := time.Now()
	for round := range trialRounds {
		alone, errOne := s.clock(ctx, one)
		together, errMany := s.clock(ctx, many)
		if errOne != nil || errMany != nil {
			return 0, false
		}
		if round > 0 {
			gains = append(gains, alone.Seconds()*float64(rows)/max(together.Seconds(), 1e-9))
		}
		took := time.Since(start)
		if took > trialTime && len(gains) >= trialLeast || took > trialLongest && len(gains) > 0 {
			break
		}
	}
	return median(gains), true
}

// clock runs inputs once.
func (s *Scheduler) clock(ctx context.Context, inputs []edgewise.Tensor) (took time.Duration, err error) {
	result, took, err := s.runTrial(ctx, inputs)
	if err != nil {
		return 0, err
	}
	result.Free()
	return took, nil
}

// runTrial runs inputs once, outside the queue and the statistics. took is the time of the run, without its wait for
// cores.
func (s *Scheduler) runTrial(
	ctx context.Context, inputs []edgewise.Tensor,
) (result *edgewise.Result, took time.Duration, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = edgewise.Errorf("sched.runTrial", edgewise.Internal, "the instance panicked in a trial: %v", cause)
		}
	}()
	lease := s.account.Lease()
	if !lease.Try() {
		lease.Wait()
	}
	defer lease.Release()
	if s.guest {
		ctx = lease.Context(ctx)
	}
	start := time.Now()
	result, err = s.instance.Run(ctx, inputs, s.checker.names, edgewise.RunOptions{})
	return result, time.Since(start), err
}

// trialInputs makes the required inputs of a request, as the backend sees them.
func (s *Scheduler) trialInputs(size trial.Size, fill trial.Fill) ([]edgewise.Tensor, error) {
	return s.checker.Trial(size, fill)
}

func bytesOf(tensors []edgewise.Tensor) int {
	n := 0
	for i := range tensors {
		n += len(tensors[i].Data)
	}
	return n
}
