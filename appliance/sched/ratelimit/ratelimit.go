// Package ratelimit lets instances run only while there is enough of the resources that they need: the rate limiter.
package ratelimit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/edgewise-ai/edgewise"
)

// Limiter is the rate limiter of the server. Models name resources that an instance needs while it runs, and a
// priority; an instance runs only while enough of each resource that it needs is free. The amount of a resource is
// configured, or is the largest need of any loaded instance. Resources that are not global are counted for each device.
//
// Among those that wait, the instance goes first that has run the least, where a run of priority p counts p times. One
// that lacks something holds back those behind it that need the same, or it could wait for ever.
type Limiter struct {
	configured map[string]map[int]int // amounts, by name and device; AnyDevice holds for all of them

	mu      sync.Mutex // guards what follows, and all claims and permits
	claims  []*Claim
	pools   map[resource]*pool
	waiting []*Permit // in the order of their arrival
}

// AnyDevice stands for every device in the configured amounts. The processor has the number 0, as the first GPU.
const AnyDevice = -1

// resource is a counted thing: of one device, or global.
type resource struct {
	name   string
	global bool
	device int // AnyDevice for a global one
}

// pool is the amount of a resource, and how much of it is in use.
type pool struct{ total, used int }

// New makes a limiter. resources are the configured amounts, by name and device.
func New(resources map[string]map[int]int) *Limiter {
	return &Limiter{configured: resources, pools: map[resource]*pool{}}
}

// Idle tells whether no version has a claim, no resource is counted and nobody waits.
func (l *Limiter) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.claims)+len(l.pools)+len(l.waiting) == 0
}

// amount returns the configured amount of a resource, 0 where it is configured for other devices alone. A global one has
// the largest amount of any device.
func (l *Limiter) amount(r resource) (total int, ok bool) {
	devices, ok := l.configured[r.name]
	for device, n := range devices {
		if r.global || device == AnyDevice || device == r.device {
			total = max(total, n)
		}
	}
	return total, ok
}

// Claim is what the instances of one version need. A nil Claim needs nothing.
type Claim struct {
	limiter   *Limiter
	model     string
	device    int
	instances []*limited
}

// limited is one instance under the limiter.
type limited struct {
	needs    map[resource]int
	priority uint64 // at least 1
	runs     uint64 // and loadRuns
	busy     bool
}

// loadRuns are the runs that an instance begins with: Triton counts its initialization and its warm-up. So of two
// instances that are loaded together the one of the lower number of priority goes first.
const loadRuns = 2

// scaled is what instances are ordered by.
func (i *limited) scaled() uint64 { return i.runs * i.priority }

// Open adds a version's instances, which run on the device of that number; of several devices it is the first. Errors:
// Invalid, when one of them needs more than the configured amount, or when a resource is global in one place and not in
// another. A nil Limiter makes a nil Claim.
func (l *Limiter) Open(m *edgewise.Model, device int) (*Claim, error) {
	if l == nil {
		return nil, nil
	}
	c := &Claim{limiter: l, model: m.Name, device: device, instances: limitedOf(m, device)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(c); err != nil {
		return nil, err
	}
	l.claims = append(l.claims, c)
	l.measure()
	return c, nil
}

func limitedOf(m *edgewise.Model, device int) []*limited {
	var list []*limited
	for _, g := range m.InstanceGroup {
		if g.Passive {
			continue
		}
		for range max(g.Count, 1) {
			i := &limited{needs: map[resource]int{}, priority: 1, runs: loadRuns}
			if r := g.RateLimiter; r != nil {
				i.priority = uint64(max(r.Priority, 1))
				for _, need := range r.Resources {
					if need.Count == 0 {
						continue
					}
					of := resource{need.Name, need.Global, device}
					if need.Global {
						of.device = AnyDevice
					}
					i.needs[of] = int(need.Count)
				}
			}
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		list = []*limited{{priority: 1, runs: loadRuns}}
	}
	return list
}

// check says why the instances of c cannot be added. l.mu is held, as below.
func (l *Limiter) check(c *Claim) error {
	for _, i := range c.instances {
		for r, n := range i.needs {
			if total, ok := l.amount(r); ok && n > total {
				return l.invalid(
					c,
					"Resource count for \"%s\" is limited to %d which will prevent scheduling of one or more model "+
						"instances, the minimum required count is %d",
					r.name, total, n,
				)
			}
			other := func(k *limited) bool { return k.needsOther(r) }
			for _, known := range append(slices.Clone(l.claims), c) {
				if slices.ContainsFunc(known.instances, other) && n > 0 {
					return l.invalid(
						c,
						"Resource \"%s\" is present as both global and device-specific resource in the model "+
							"configuration.",
						r.name,
					)
				}
			}
		}
	}
	return nil
}

// needsOther tells whether an instance needs a resource of that name that is global where r is not, or the reverse.
func (i *limited) needsOther(r resource) bool {
	for other, n := range i.needs {
		if other.name == r.name && other.global != r.global && n > 0 {
			return true
		}
	}
	return false
}

func (l *Limiter) invalid(c *Claim, format string, args ...any) error {
	return edgewise.Errorf(
		"sched.Open", edgewise.Invalid, "model %q: instance_group: rate_limiter: %w", c.model,
		fmt.Errorf(format, args...),
	)
}

// measure sets the amounts of all resources.
func (l *Limiter) measure() {
	for _, p := range l.pools {
		p.total = 0
	}
	for _, c := range l.claims {
		for _, i := range c.instances {
			for r, n := range i.needs {
				if l.pools[r] == nil {
					l.pools[r] = &pool{}
				}
				l.pools[r].total = max(l.pools[r].total, n)
			}
		}
	}
	for r, p := range l.pools {
		if p.total == 0 && p.used == 0 {
			delete(l.pools, r)
		} else if total, ok := l.amount(r); ok {
			p.total = total
		}
	}
	l.serve()
}

// Resize follows a change of a version's instance groups. Runs in progress keep what they have until they end. On an
// error, one of Open, nothing has changed.
func (c *Claim) Resize(m *edgewise.Model) error {
	if c == nil {
		return nil
	}
	l := c.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := &Claim{limiter: l, model: c.model, device: c.device, instances: limitedOf(m, c.device)}
	at := slices.Index(l.claims, c)
	if at < 0 {
		return nil
	}
	l.claims = slices.Delete(l.claims, at, at+1)
	err := l.check(changed)
	if err == nil {
		c.instances = changed.instances
	}
	l.claims = append(l.claims, c)
	l.measure()
	return err
}

// Close removes the version's instances. None of them runs or waits.
func (c *Claim) Close() {
	if c == nil {
		return
	}
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.limiter.claims = slices.DeleteFunc(c.limiter.claims, func(other *Claim) bool { return other == c })
	c.limiter.measure()
}

// Permit is an instance loop's right to run as one of its version's instances. Its owner alone calls its methods.
type Permit struct {
	claim   *Claim
	held    *limited
	granted chan struct{} // one token: the wait is over
}

// Permit returns the permit of one loop; that of a nil claim is always had.
func (c *Claim) Permit() *Permit {
	if c == nil {
		return nil
	}
	return &Permit{claim: c, granted: make(chan struct{}, 1)}
}

// Try takes what a run needs and tells whether it has it; it does not wait.
func (p *Permit) Try() bool {
	if p == nil || p.held != nil {
		return true
	}
	l := p.claim.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, p)
	l.serve()
	if p.held == nil {
		l.waiting = l.waiting[:len(l.waiting)-1]
		return false
	}
	<-p.granted
	return true
}

// Wait returns when it has what a run needs. Others never hold it for longer than a run.
func (p *Permit) Wait() {
	l := p.claim.limiter
	l.mu.Lock()
	l.waiting = append(l.waiting, p)
	l.serve()
	l.mu.Unlock()
	<-p.granted
}

// Pass ends a run. The permit keeps its resources for the next run, unless an instance that waits goes first. Without
// that, two instances that exclude each other would alternate whatever their priorities are.
func (p *Permit) Pass() {
	if p == nil || p.held == nil {
		return
	}
	l := p.claim.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	p.release()
	l.waiting = append(l.waiting, p)
	l.serve()
	if p.held != nil {
		<-p.granted
		return
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(other *Permit) bool { return other == p })
}

// Give returns resources that were taken and not used, if any.
func (p *Permit) Give() {
	if p == nil || p.held == nil {
		return
	}
	l := p.claim.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	p.held.runs--
	p.release()
	l.serve()
}

func (p *Permit) release() {
	for r, n := range p.held.needs {
		p.claim.limiter.pools[r].used -= n
	}
	p.held.busy = false
	p.held = nil
}

// serve grants permits to waiting instances that can run, in the order of their rank.
func (l *Limiter) serve() {
	order := slices.Clone(l.waiting)
	slices.SortStableFunc(order, func(a, b *Permit) int { return cmp.Compare(a.rank(), b.rank()) })
	missed := map[resource]bool{} // resources that a permit before lacks
	for _, p := range order {
		i := l.choose(p, missed)
		if i == nil {
			continue
		}
		for r, n := range i.needs {
			l.pools[r].used += n
		}
		i.busy = true
		i.runs++
		p.held = i
		l.waiting = slices.DeleteFunc(l.waiting, func(other *Permit) bool { return other == p })
		p.granted <- struct{}{}
	}
}

// rank orders permits by the instance that would run.
func (p *Permit) rank() uint64 {
	best := uint64(math.MaxUint64) // all run
	for _, i := range p.claim.instances {
		if !i.busy {
			best = min(best, i.scaled())
		}
	}
	return best
}

// choose returns the idle instance that has run the least among those that can run now. Without one it adds the
// resources that the first idle instance lacks to missed.
func (l *Limiter) choose(p *Permit, missed map[resource]bool) *limited {
	idle := slices.DeleteFunc(slices.Clone(p.claim.instances), func(i *limited) bool { return i.busy })
	slices.SortStableFunc(idle, func(a, b *limited) int { return cmp.Compare(a.scaled(), b.scaled()) })
	for _, i := range idle {
		if l.available(i, missed) {
			return i
		}
	}
	if len(idle) > 0 {
		for r := range idle[0].needs {
			missed[r] = true
		}
	}
	return nil
}

func (l *Limiter) available(i *limited, missed map[resource]bool) bool {
	for r, n := range i.needs {
		if missed[r] || l.pools[r].used+n > l.pools[r].total {
			return false
		}
	}
	return true
}
