package sched

import (
	"context"

	"github.com/edgewise-ai/edgewise"
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
	if s.proof == nil || s.proof.Declared != "" || s.proof.Refuted != "" || m.MaxBatchSize < 2 || m.DynamicBatching == nil {
		s.report()
		return
	}
	decision := edgewise.Batching{Merged: true, Independent: true, Reason: "a trial at load found that rows do not depend on each other"}
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
	if padder, ok := s.instance.(edgewise.Padder); ok && b.Independent {
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
		s.logger.Info("merging of requests into batches", "model", s.version.ID.String(), "merged", b.Merged, "reason", b.Reason)
	}
}
