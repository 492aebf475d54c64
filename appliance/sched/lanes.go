package sched

// lanes is how many lanes a queue has and how many it is to have. The queue's mutex guards it.
type lanes struct{ there, wanted int }

// leave tells a lane to go, when there are too many.
func (l *lanes) leave() bool {
	if l.there <= l.wanted {
		return false
	}
	l.there--
	return true
}

// Resize changes how many batches run at the same time, n at least 1, while requests are served. Lanes that are too many
// end after the batch that they are running. After Close it does nothing.
func (s *Scheduler) Resize(n int) {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.lanes.wanted = max(n, 1)
	for ; q.lanes.there < q.lanes.wanted; q.lanes.there++ {
		l := &lane{s: s, seat: s.account.seat(), permit: s.claim.permit(), gatherer: newGatherer(s.instance)}
		s.lanes.Go(l.loop)
	}
	q.ready.Broadcast()
}
