package sched

// Hold keeps a version from running anything until as many requests wait as a test wants to see in its batches. Then, for
// good, the version runs what waits and what comes. Requests of the warm-up are not held back. It is Triton's
// TRITONSERVER_DELAY_SCHEDULER and TRITONSERVER_BACKLOG_DELAY_SCHEDULER.
type Hold struct {
	Queued  int // requests in the queue of a version that batches, or in the slots of its sequences
	Backlog int // and, with the strategy direct, requests of sequences without a slot
}

// hold lets nothing leave the queue before n jobs wait.
func (q *queue) hold(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = n
}

// holds tells whether nothing may leave the queue yet. What is closed is not held.
func (q *queue) holds() bool {
	if q.size >= q.held || q.closed {
		q.held = 0
	}
	return q.held > 0
}

// release ends the hold when as many requests wait as it wants. Those that wait in slots begin.
func (t *sequenceTable) release() {
	if t.hold == (Hold{}) {
		return
	}
	backlog := 0
	for l := t.backlog.first; l != nil; l = l.next {
		backlog += len(l.of.queue)
	}
	if !t.closed && (t.waiting-backlog < t.hold.Queued || backlog < t.hold.Backlog) {
		return
	}
	stopped := t.stopped
	t.hold, t.stopped = Hold{}, nil
	for _, s := range stopped {
		if s.seated && len(s.queue) > 0 {
			t.next(s)
		}
	}
}
