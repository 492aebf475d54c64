package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// usable is the part of a resource that a load may use: above, queues grow in the time that anybody looks.
const usable = 0.95

// Profile is what was measured of a model.
type Profile struct {
	ID     edgewise.ModelID
	Single Cost    // with as many requests in progress as cores: all of them are busy, and batches as small as they get
	Full   Cost    // with more than are answered: batches are as large as they get
	Most   float64 // requests a second that were answered then
	Base   float64 // seconds of a request that waits for nothing
	Steps  int     // queues that a request goes through, at least 1
	Inputs string
}

// Cost is what a request takes.
type Cost struct {
	Core    float64  // seconds of cores, its copies and its way through the box included
	Demands []Demand // of the same versions in every cost of a profile
}

// Demand is what a request needs of the instances of one version: its own, or that of a step.
type Demand struct {
	ID        edgewise.ModelID
	Seconds   float64 // of an instance
	Runs      float64
	Instances int
	Device    string // of a GPU; "" for the CPU
}

// Load is a model at a rate.
type Load struct {
	Profile
	Rate  float64 // requests a second
	Bound float64 // seconds that 99 % of the requests may take; 0: none
}

// cost is what a request takes at the rate of the load. The requests of a batch share what a run takes beside its rows.
// Batches are assumed to grow evenly with the rate, up to those of Full at Most.
func (l Load) cost() Cost {
	part := min(l.Rate/l.Most, 1)
	batch := max(l.Single.runs()/max(l.Full.runs(), 1e-9), 1.0001)
	share := (1 - 1/(1+(batch-1)*part)) / (1 - 1/batch)
	between := func(single, full float64) float64 {
		full = max(full, single/max(batch, 2)) // noise must not make a larger rate take less time in all
		return single + (full-single)*share
	}
	c := Cost{Core: between(l.Single.Core, l.Full.Core), Demands: slices.Clone(l.Full.Demands)}
	for i := range c.Demands {
		d, single := &c.Demands[i], l.Single.Demands[i]
		d.Seconds, d.Runs = between(single.Seconds, d.Seconds), between(single.Runs, d.Runs)
	}
	return c
}

// runs are those of all versions for a request.
func (c Cost) runs() (sum float64) {
	for _, d := range c.Demands {
		sum += d.Runs
	}
	return sum
}

// Situation is what a prediction is made of.
type Situation struct {
	Cores  int
	Loads  []Load
	Needed int64 // bytes of all versions together
	Memory int64 // bytes that models may take; 0: not bounded
}

// Predict says whether a box carries its loads, and what breaks first.
func Predict(s Situation) *admin.Capacity {
	c := &admin.Capacity{Unsaid: []string{}}
	c.Resources = append(c.Resources, s.cores())
	c.Resources = append(c.Resources, s.instances()...)
	c.Resources = append(c.Resources, s.latencies(least(c.Resources))...)
	if s.Memory > 0 {
		c.Resources = append(c.Resources, admin.CapacityResource{
			Name: "memory", Used: float64(s.Needed) / float64(s.Memory),
			Detail: fmt.Sprintf("%d MiB of %d MiB", s.Needed>>20, s.Memory>>20),
		})
	}
	slices.SortStableFunc(c.Resources, func(a, b admin.CapacityResource) int { return cmp.Compare(rank(a), rank(b)) })
	first := c.Resources[0]
	c.Breaks, c.Factor = first.Name, least(c.Resources)
	c.Feasible = c.Factor >= 1 && rank(first) >= 1
	switch {
	case rank(first) == 0:
		c.Factor = 0
		c.Sentence = fmt.Sprintf("not feasible at any rate: %s: %s", first.Name, first.Detail)
	case c.Feasible:
		c.Sentence = fmt.Sprintf("feasible: all rates may grow %.2f times together, then %s is used up", c.Factor, first.Name)
	default:
		c.Sentence = fmt.Sprintf("not feasible: %s breaks first (%s); at %.2f times these rates it is feasible", first.Name,
			first.Detail, c.Factor)
	}
	for _, l := range s.Loads {
		alone := Situation{Cores: s.Cores, Loads: []Load{{Profile: l.Profile, Rate: 1}}}
		found := admin.CapacityFound{
			Model: l.ID.Name, Version: l.ID.Version, Rate: l.Rate, Bound: 1000 * l.Bound, Inputs: l.Inputs,
			Core:  1000 * l.cost().Core,
			Alone: least(append(alone.instances(), alone.cores())),
		}
		if p99 := s.p99(l); !math.IsInf(p99, 1) {
			found.P99 = 1000 * p99
		}
		c.Models = append(c.Models, found)
	}
	return c
}

// rank is the factor by which a resource is ordered: what does not depend on rates breaks at once or never.
func rank(r admin.CapacityResource) float64 {
	if r.Factor == 0 && r.Used <= 1 {
		return math.Inf(1)
	}
	return r.Factor
}

// least is the smallest factor.
func least(list []admin.CapacityResource) float64 {
	f := math.Inf(1)
	for _, r := range list {
		if r.Factor > 0 {
			f = min(f, r.Factor)
		}
	}
	return f
}

// times is the situation with all rates so many times what they are.
func (s Situation) times(factor float64) Situation {
	s.Loads = slices.Clone(s.Loads)
	for i := range s.Loads {
		s.Loads[i].Rate *= factor
	}
	return s
}

// mostFactor bounds the factors by which rates may grow.
const mostFactor = 1e9

// grown is the largest factor, up to most, by which all rates can be multiplied while holds is true. Where holds is true of
// one factor, it is true of every smaller one.
func (s Situation) grown(most float64, holds func(Situation) bool) float64 {
	low, high := math.Log(1/mostFactor), math.Log(most)
	if holds(s.times(most)) {
		return most
	}
	for range 60 {
		if mid := (low + high) / 2; holds(s.times(math.Exp(mid))) {
			low = mid
		} else {
			high = mid
		}
	}
	return math.Exp(low)
}

// cores is what all loads need of the cores together.
func (s Situation) cores() admin.CapacityResource {
	busy := s.busy()
	return admin.CapacityResource{
		Name: "cores", Used: busy / float64(s.Cores), Detail: fmt.Sprintf("%.2f of %d cores", busy, s.Cores),
		Factor: s.grown(mostFactor, func(s Situation) bool { return s.busy() <= usable*float64(s.Cores) }),
	}
}

func (s Situation) busy() (cores float64) {
	for _, l := range s.Loads {
		cores += l.Rate * l.cost().Core
	}
	return max(cores, 1e-9)
}

// queue is the requests for the instances of one version, or for one GPU.
type queue struct {
	name    string
	servers int
	seconds float64 // of servers, each second
	runs    float64 // each second
	moment  float64 // of the lengths of runs, the second one, each second
}

// used is the part of the time in which a server is busy.
func (q queue) used() float64 { return q.seconds / float64(max(q.servers, 1)) }

// queues are those of versions and of GPUs, with what all loads need of them.
func (s Situation) queues() map[string]*queue {
	list := map[string]*queue{}
	add := func(name string, servers int, l Load, d Demand) {
		q := list[name]
		if q == nil {
			q = &queue{name: name, servers: servers}
			list[name] = q
		}
		q.seconds += l.Rate * d.Seconds
		q.runs += l.Rate * d.Runs
		if d.Runs > 0 {
			q.moment += l.Rate * d.Seconds * d.Seconds / d.Runs
		}
	}
	for _, l := range s.Loads {
		for _, d := range l.cost().Demands {
			add("instances of "+d.ID.Name, d.Instances, l, d)
			if d.Device != "" {
				add(d.Device, 1, l, d)
			}
		}
	}
	return list
}

// instances is what the loads need of the instances of versions, and of GPUs.
func (s Situation) instances() (list []admin.CapacityResource) {
	queues := s.queues()
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		q := queues[name]
		if q.seconds <= 0 {
			continue
		}
		list = append(list, admin.CapacityResource{
			Name: name, Used: q.used(), Detail: fmt.Sprintf("%.2f of %d", q.seconds, max(q.servers, 1)),
			Factor: s.grown(mostFactor, func(s Situation) bool { return s.queues()[name].used() <= usable }),
		})
	}
	return list
}

// latencies compares the predicted p99 with the bounds. most is the factor from which on other resources are used up.
func (s Situation) latencies(most float64) (list []admin.CapacityResource) {
	for _, l := range s.Loads {
		if l.Bound == 0 {
			continue
		}
		now := s.p99(l)
		r := admin.CapacityResource{
			Name: "p99 of " + l.ID.Name, Used: now / l.Bound,
			Detail: fmt.Sprintf("%.1f ms of %.1f ms", 1000*now, 1000*l.Bound),
		}
		if math.IsInf(now, 1) {
			r.Used, r.Detail = 1/usable, "the queue grows without end at these rates"
		}
		switch {
		case l.Base > l.Bound:
			r.Used = l.Base / l.Bound
			r.Detail = fmt.Sprintf("a request that waits for nothing takes %.1f ms, and %.1f ms are wanted", 1000*l.Base, 1000*l.Bound)
		default:
			r.Factor = max(s.grown(most/usable, func(s Situation) bool { return s.p99(l) <= l.Bound }), 1e-6)
		}
		list = append(list, r)
	}
	return list
}

// p99 predicts the time that 99 % of a load's requests take; infinite where the queue grows without end. In each queue of
// its way a request waits behind the cores or its instances, whichever is longer, as one of many random arrivals does whose
// runs are as long as those of the mix.
func (s Situation) p99(l Load) float64 {
	mix := queue{servers: s.Cores, seconds: s.busy()}
	queues := s.queues()
	for _, q := range queues {
		if len(q.name) > 0 && q.runs > 0 {
			mix.runs += q.runs
			mix.moment += q.moment
		}
	}
	longest := mix.wait()
	for _, d := range l.Full.Demands {
		if q := queues["instances of "+d.ID.Name]; q != nil {
			longest = max(longest, q.wait())
		}
		if q := queues[d.Device]; q != nil && d.Device != "" {
			longest = max(longest, q.wait())
		}
	}
	return l.Base + float64(max(l.Steps, 1))*longest
}

// wait is the time that 99 % of the arrivals wait at most: the tail of a queue of n servers, exponential, whose mean is that
// of Erlang's formula, corrected for the lengths of the runs by Lee and Longton.
func (q queue) wait() float64 {
	used, n := q.used(), max(q.servers, 1)
	switch {
	case q.runs <= 0 || used <= 0:
		return 0
	case used >= 1:
		return math.Inf(1)
	}
	service := q.seconds / q.runs
	spread := min(max(q.moment/q.runs/(service*service), 1), 100) // 1 where all runs are as long
	waits := erlang(n, used)
	const late = 0.01
	if waits <= late {
		return 0
	}
	mean := service * spread / 2 / (float64(n) * (1 - used))
	return mean * math.Log(waits/late)
}

// erlang is the probability that an arrival finds all n servers busy, each of which is busy for such a part of the time.
func erlang(n int, used float64) float64 {
	offered, blocked := float64(n)*used, 1.0
	for k := 1; k <= n; k++ {
		blocked = offered * blocked / (float64(k) + offered*blocked)
	}
	return blocked / (1 - used*(1-blocked))
}
