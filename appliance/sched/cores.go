package sched

import (
	"sync"
	"sync/atomic"
	"time"
)

// Cores is the box's budget of cores, which the lanes of all versions share: a lane runs a batch only while it holds as
// many cores as the run has threads. So the sum of running lanes times threads never exceeds the cores, however many
// models are loaded.
//
// It is fair between versions: the cores go to the version that has used the least core time, among those that want
// some. A version that was idle begins with what the last one served had used: it neither saves up nor pays for the
// past. A version that needs more cores than are free holds the others back until they are, or it would wait for ever.
// Within a version priorities are strict: what runs is chosen when the cores are there, not before.
type Cores struct {
	mu      sync.Mutex // guards what follows, and all accounts and seats
	total   int
	free    int
	clock   time.Duration // what the version served last had used then
	lone    int           // runs in a row that nobody ran beside, or waited for
	ended   atomic.Int64  // cores that are held and whose run has ended
	wide    *seat         // whose run has more cores than its account's width; nil: none
	waiting []*seat       // in the order of their arrival
	places  places
}

// NewCores makes a budget of n cores, at least 1. Where numbers are those of n cores, more than one, in the order in which they
// are best used, a lane that holds one core has one of them for itself.
func NewCores(n int, numbers ...int) *Cores {
	c := &Cores{total: max(n, 1), free: max(n, 1)}
	if len(numbers) == n && n > 1 {
		c.places = places{numbers, make([]bool, n)}
	}
	return c
}

// account is the core time that one version has used. A nil account stands for a version that needs no cores.
type account struct {
	cores  *Cores
	width  int           // cores of one run
	used   time.Duration // core time, moved up to the clock after idling
	last   time.Duration // core time of the last run: what the next one is expected to take
	active int           // seats that are held or waited for
}

// open begins an account for runs of so many threads. A run never needs more cores than there are.
func (c *Cores) open(threads int) *account {
	if c == nil || threads < 1 {
		return nil
	}
	return &account{cores: c, width: min(threads, c.total)}
}

// seat is a lane's hold on its cores. Its owner alone calls its methods, but for those of lend.go.
type seat struct {
	account *account
	held    bool
	since   time.Time
	core    int           // counted from 1, that it has for itself while it is held; 0: none
	more    int           // cores beside the account's width, until the end of the run
	ended   bool          // the run has ended, and its answers may have left
	charged time.Duration // in advance
	granted chan struct{} // one token: the wait is over
	lent    int           // guests' calls that it is lent out for
}

func (a *account) seat() *seat { return &seat{account: a, granted: make(chan struct{}, 1)} }

// try takes the cores and tells whether it has them; it does not wait.
func (s *seat) try() bool {
	if s.account == nil || s.held {
		s.begin()
		return true
	}
	c := s.account.cores
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 || c.free < s.account.width {
		return false
	}
	s.account.enter()
	c.grant(s)
	return true
}

// wait returns when it has the cores. They are never held for longer than a run by others.
func (s *seat) wait() {
	c := s.account.cores
	c.mu.Lock()
	s.account.enter()
	if c.company(s) {
		c.lone = 0
	}
	c.waiting = append(c.waiting, s)
	c.serve()
	c.mu.Unlock()
	<-s.granted
}

// pass ends a run: the cores are kept for the next one, unless a version waits for cores that has used less. Without
// keeping them, a version with one lane would lose a turn whenever its run and another one end together.
func (s *seat) pass() {
	if s.account == nil || !s.held {
		return
	}
	a, c := s.account, s.account.cores
	c.mu.Lock()
	defer c.mu.Unlock()
	a.last = s.settle()
	if len(c.waiting) > 0 && c.waiting[c.next()].account.used < a.used {
		c.leave(s)
		return
	}
	s.book()
}

// give gives the cores back, if it has them.
func (s *seat) give() {
	if s.account == nil || !s.held {
		return
	}
	c := s.account.cores
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(s)
}

// enter counts a seat as active. c.mu is held, as below.
func (a *account) enter() {
	if a.active == 0 {
		a.used = max(a.used, a.cores.clock)
	}
	a.active++
}

func (c *Cores) grant(s *seat) {
	a := s.account
	if c.company(s) {
		c.lone = 0
	}
	c.free -= a.width
	c.clock = max(c.clock, a.used)
	if a.width == 1 {
		s.core = c.places.take()
	}
	s.held, s.since = true, time.Now()
	s.book()
}

func (c *Cores) leave(s *seat) {
	s.settle()
	s.begin()
	c.places.give(s.core)
	s.held, s.core = false, 0
	s.account.active--
	c.free += s.account.width
	c.serve()
}

// book charges what the next run is expected to take.
func (s *seat) book() {
	s.charged = s.account.last
	s.account.used += s.charged
}

// settle replaces what was charged in advance by what was used since, which it returns.
func (s *seat) settle() time.Duration {
	c, now := s.account.cores, time.Now()
	c.narrow(s)
	used := now.Sub(s.since) * time.Duration(s.account.width)
	s.account.used += used - s.charged
	s.since, s.charged = now, 0
	return used
}

// serve hands free cores to those who wait, the version first that has used least.
func (c *Cores) serve() {
	for len(c.waiting) > 0 {
		next := c.next()
		s := c.waiting[next]
		if s.account.width > c.free && c.wide != nil {
			c.narrow(c.wide)
		}
		if s.account.width > c.free {
			return
		}
		c.waiting = append(c.waiting[:next], c.waiting[next+1:]...)
		c.grant(s)
		s.granted <- struct{}{}
	}
}

// next is the index of who waits and whose version has used least.
func (c *Cores) next() int {
	next := 0
	for i, s := range c.waiting {
		if s.account.used < c.waiting[next].account.used {
			next = i
		}
	}
	return next
}
