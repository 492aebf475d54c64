package sched

import "context"

// A guest that runs for long leaves the budget: models go before it, on every core that they want. It goes on where Idle says that
// there is room.

// Count returns how many cores the budget has.
func (c *Cores) Count() int { return c.total }

// Idle returns how many cores are free, 0 while somebody waits for some.
func (c *Cores) Idle() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		return 0
	}
	return c.free
}

// Leave gives back the cores that the run of a guest holds, for the rest of that run. ctx is that of the guest; any other holds none.
func (c *Cores) Leave(ctx context.Context) {
	s, ok := ctx.Value(seatKey{}).(*seat)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.held && s.lent == 0 {
		c.leave(s)
	}
}
