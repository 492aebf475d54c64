package sched

import (
	"context"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Row is a request of a batch that an Answerer is given as it stands.
type Row struct {
	Context  context.Context // of its client
	Request  *edgewise.Request
	Response *edgewise.Response // set by InferRows, unless Err is
	Err      error
}

// Answers tells whether the instance is given requests as they are, so that a batch of sequences is one of requests
// (InferRows) and not one of tensors.
func (s *Scheduler) Answers() bool { return s.answerer != nil }

// InferRows gives requests of one row each to an Answerer that is not decoupled: in one batch, in this order. It waits
// until all are answered. ctx ends when nobody waits for any of them.
func (s *Scheduler) InferRows(ctx context.Context, rows []Row) {
	batch := s.jobs.get()
	defer s.jobs.put(batch)
	batch.ctx, batch.arrived, batch.batch = ctx, time.Now(), len(rows)
	batch.level = s.policies.level(0)
	err := s.answerer.admits(s, rows[0].Request)
	for i := range rows {
		j := s.jobs.get()
		defer s.jobs.put(j)
		j.ctx, j.arrived, j.request = rows[i].Context, batch.arrived, rows[i].Request
		if err == nil {
			err = s.checker.check(rows[i].Request, j)
		}
		batch.rows = append(batch.rows, j)
	}
	own := batch.rows
	if err == nil {
		err = s.unfold(batch)
	}
	for i, j := range own {
		if rows[i].Err = err; err != nil {
			continue
		}
		<-j.done
		if rows[i].Err = j.err; j.err == nil {
			rows[i].Response = s.response(j.request, j)
		}
	}
}

// unfold waits until an instance loop has put the rows of a batch in its place.
func (s *Scheduler) unfold(batch *job) error {
	idle, err := s.queue.push(batch)
	if err != nil {
		return s.refusal(err)
	}
	if idle != nil {
		idle.lead(batch)
	}
	s.await(batch)
	return batch.err
}

// unfolded returns jobs, or the rows of a batch, which are answered one by one: the batch has done its part then.
func unfolded(jobs []*job) []*job {
	if len(jobs) != 1 || jobs[0].rows == nil { // batches of rows are never merged with others
		return jobs
	}
	batch := jobs[0]
	rows := batch.rows
	for _, j := range rows {
		j.started, j.waiting = batch.started, batch.waiting
	}
	batch.done <- struct{}{}
	return rows
}
