package sched

import (
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// former decides which waiting jobs make the next batch. It is a pure function of what it is shown.
type former struct {
	most      int           // elements of a batch
	preferred []int         // sizes to aim at, ascending; never empty
	delay     time.Duration // how long the oldest job may wait for others; 0: never while a lane is free
	auto      bool          // the delay adapts itself, see load
	asked     bool          // the configuration asks for batches in so many words: they are made without a trial
}

// moment is what a former has to know beside the waiting jobs.
type moment struct {
	now      time.Time
	delay    time.Duration
	expected int  // elements that are likely to be here soon, those waiting included; 0: unknown, use the whole delay
	single   bool // no batches
	ending   bool // nothing more will come
}

// plan is what a lane is to do: run the first take jobs, or look again when a job arrives or wait is over.
type plan struct {
	take   int
	wait   time.Duration
	reason edgewise.CloseReason
}

// formerOf reads a model's dynamic_batching. ok is false when the model does not batch.
func formerOf(m *edgewise.Model) (f former, ok bool) {
	b := m.DynamicBatching
	if b == nil || m.MaxBatchSize <= 1 {
		return former{most: 1, preferred: []int{1}}, false
	}
	f = former{most: int(m.MaxBatchSize), delay: time.Duration(b.MaxQueueDelay) * time.Microsecond}
	for _, size := range b.PreferredBatchSize {
		f.preferred = append(f.preferred, int(size))
	}
	if len(f.preferred) == 0 {
		f.preferred = []int{f.most}
	}
	slices.Sort(f.preferred)
	f.auto = m.Parameters[delayParameter].StringValue == delayAuto
	f.asked = f.delay > 0 && !f.auto || !slices.Equal(f.preferred, []int{f.most})
	return f, true
}

// form plans the next batch out of jobs, which stand in the order in which they are to be served. It needs to see no
// more than most+1 of them.
//
// A batch takes jobs in order until one does not fit. It aims at the largest preferred size that can be had, as long as
// the delay is not over and no job has waited for half of the time that it has. Without a delay it never waits.
func (f *former) form(jobs []*job, m moment) plan {
	switch {
	case len(jobs) == 0:
		return plan{}
	case m.single:
		return plan{take: 1, reason: edgewise.CloseOff}
	}
	s := f.scan(jobs)
	age := m.now.Sub(s.oldest)
	expired := m.delay > 0 && age >= m.delay
	switch {
	case s.mark > 0 && !expired:
		return plan{take: s.mark, reason: s.markReason}
	case s.closed:
		return plan{take: s.take, reason: s.reason}
	case s.total >= f.preferred[len(f.preferred)-1]:
		return plan{take: s.take, reason: f.reached(s.total)}
	case expired:
		return plan{take: s.take, reason: edgewise.CloseDelay}
	case m.delay == 0 || m.ending || m.expected > 0 && s.total >= m.expected:
		return plan{take: s.take, reason: edgewise.CloseIdle}
	case !s.due.IsZero() && !m.now.Before(s.due):
		return plan{take: s.take, reason: edgewise.CloseDeadline}
	case !s.due.IsZero():
		return plan{wait: min(m.delay-age, s.due.Sub(m.now))}
	}
	return plan{wait: m.delay - age}
}

// scanned is what stands at the front of the queue.
type scanned struct {
	take, total int       // jobs that fit together, and their elements
	closed      bool      // the next one does not, for reason
	mark        int       // jobs that make the best preferred size; 0: none
	oldest      time.Time // arrival
	due         time.Time // when half of the time of a job is over, the first of these; zero: none
	reason      edgewise.CloseReason
	markReason  edgewise.CloseReason
}

func (f *former) scan(jobs []*job) scanned {
	s := scanned{oldest: jobs[0].arrived}
	largest := f.preferred[len(f.preferred)-1]
	for i, j := range jobs {
		if i > 0 && s.mark == 0 && s.total+j.batch > largest {
			s.mark, s.markReason = i, f.reached(max(s.total, largest))
		}
		switch {
		case i > 0 && s.total+j.batch > f.most:
			s.closed, s.reason = true, edgewise.CloseFull
			return s
		case i > 0 && !jobs[0].fits(j):
			s.closed, s.reason = true, edgewise.CloseShape
			return s
		}
		s.add(j)
		if slices.Contains(f.preferred, s.total) {
			s.mark, s.markReason = s.take, f.reached(s.total)
		}
	}
	return s
}

func (s *scanned) add(j *job) {
	s.take++
	s.total += j.batch
	if j.arrived.Before(s.oldest) {
		s.oldest = j.arrived
	}
	if j.ends.IsZero() {
		return
	}
	if half := j.arrived.Add(j.ends.Sub(j.arrived) / 2); s.due.IsZero() || half.Before(s.due) {
		s.due = half
	}
}

func (f *former) reached(total int) edgewise.CloseReason {
	if total >= f.most {
		return edgewise.CloseFull
	}
	return edgewise.ClosePreferred
}
