package sched

import "context"

// A guest that runs on a lane may ask other models. While it waits for them its lane computes nothing, so the cores are
// lent out: otherwise guests that hold all cores would wait for ever for models that get none.

// seatKey is the key under which a guest's context carries the seat of its lane.
type seatKey struct{}

// with returns a context whose holder can lend the seat out.
func (s *seat) with(ctx context.Context) context.Context {
	if s.account == nil {
		return ctx
	}
	return context.WithValue(ctx, seatKey{}, s)
}

// lend gives the cores back until the returned function has returned, which waits for them again. ctx is that of a
// guest; any other lends nothing. Several may lend the same seat at a time: it comes back with the last one.
func lend(ctx context.Context) (back func()) {
	s, ok := ctx.Value(seatKey{}).(*seat)
	if !ok {
		return func() {}
	}
	c := s.account.cores
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.lent++; s.lent == 1 && s.held {
		c.leave(s)
	}
	return s.back
}

func (s *seat) back() {
	c := s.account.cores
	c.mu.Lock()
	s.lent--
	wait := s.lent == 0
	if wait {
		s.account.enter()
		c.waiting = append(c.waiting, s)
		c.serve()
	}
	c.mu.Unlock()
	if wait {
		<-s.granted
	}
}
