package sched

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/sched/ratelimit"
)

// gauge is how much of each resource is in use.
type gauge struct {
	mu   sync.Mutex
	used map[string]int
	most map[string]int
	runs []string // models, in the order of their runs
}

func newGauge() *gauge { return &gauge{used: map[string]int{}, most: map[string]int{}} }

// employee is an instance that takes a while, and uses up a resource meanwhile.
type employee struct {
	doubler
	gauge *gauge
	model string
	needs map[string]int
	takes time.Duration
}

func (w *employee) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	w.gauge.mu.Lock()
	w.gauge.runs = append(w.gauge.runs, w.model)
	for name, n := range w.needs {
		w.gauge.used[name] += n
		w.gauge.most[name] = max(w.gauge.most[name], w.gauge.used[name])
	}
	w.gauge.mu.Unlock()
	time.Sleep(w.takes)
	w.gauge.mu.Lock()
	for name, n := range w.needs {
		w.gauge.used[name] -= n
	}
	w.gauge.mu.Unlock()
	return w.doubler.Run(ctx, in, want, options)
}

// limitedModel needs resources for each of its instances.
func limitedModel(name string, count int32, priority uint32, global bool, needs map[string]int) *edgewise.Model {
	m := model()
	m.Name = name
	limits := &edgewise.RateLimiter{Priority: priority}
	for r, n := range needs {
		limits.Resources = append(
			limits.Resources, edgewise.RateLimiterResource{Name: r, Global: global, Count: uint32(n)},
		)
	}
	m.InstanceGroup = []edgewise.InstanceGroup{{Name: "g", Count: count, RateLimiter: limits}}
	return m
}

// employ starts a scheduler for a employee.
func employ(t *testing.T, l *ratelimit.Limiter, g *gauge, m *edgewise.Model, needs map[string]int, c Config) *Scheduler {
	t.Helper()
	claim, err := l.Open(m, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Claim = claim
	return schedulerOf(&employee{gauge: g, model: m.Name, needs: needs, takes: time.Millisecond}, m, c)
}

// TestResourcesAreNeverOverdrawn runs models with drawn needs against drawn and default limits: every request is
// answered, and no resource is used beyond what there is.
func TestResourcesAreNeverOverdrawn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		configured, largest := map[string]map[int]int{}, map[string]int{}
		if rapid.Bool().Draw(rt, "configured") {
			configured["A"] = map[int]int{ratelimit.AnyDevice: 6}
		}
		type drawnModel struct {
			needs                map[string]int
			count, requests      int
			priority             uint32
			instances, resizesTo int
		}
		var models []drawnModel
		for range rapid.IntRange(1, 4).Draw(rt, "models") {
			d := drawnModel{
				needs: map[string]int{}, count: rapid.IntRange(1, 3).Draw(rt, "count"), requests: rapid.IntRange(1, 10).Draw(rt,
					"requests"),
				priority: rapid.Uint32Range(0, 3).Draw(rt, "priority"), instances: rapid.IntRange(1, 3).Draw(rt,
					"instances"), resizesTo: rapid.IntRange(0, 3).Draw(rt, "resizes"),
			}
			for _, r := range []string{"A", "B"} {
				if n := rapid.IntRange(0, 5).Draw(rt, r); n > 0 {
					d.needs[r] = n
					largest[r] = max(largest[r], n)
				}
			}
			models = append(models, d)
		}
		budget := cores.New(rapid.IntRange(1, 3).Draw(rt, "cores"))
		synctest.Test(t, func(t *testing.T) {
			l, g := ratelimit.New(configured), newGauge()
			var open, clients sync.WaitGroup
			for i, d := range models {
				m := limitedModel(fmt.Sprint(i), int32(d.count), d.priority, false, d.needs)
				s := employ(t, l, g, m, d.needs, Config{Instances: d.instances, Cores: budget, Threads: 1, MaxQueue: 20})
				var mine sync.WaitGroup
				for range d.requests {
					mine.Go(func() {
						r, err := s.Infer(t.Context(), request(1, 2))
						if err != nil {
							t.Error(err)
						}
						r.Release()
					})
				}
				if d.resizesTo > 0 {
					changed := limitedModel(fmt.Sprint(i), int32(d.resizesTo), d.priority, false, d.needs)
					if err := s.claim.Resize(changed); err != nil {
						t.Error(err)
					}
					s.Resize(d.resizesTo)
				}
				clients.Go(func() { mine.Wait() })
				open.Go(func() {
					mine.Wait()
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			clients.Wait()
			open.Wait()
			for r, most := range g.most {
				limit := largest[r]
				if devices, ok := configured[r]; ok {
					limit = devices[ratelimit.AnyDevice]
				}
				if most > limit {
					t.Errorf("%d of %s were used, and there are %d", most, r, limit)
				}
			}
			if !l.Idle() {
				t.Errorf("left over: %+v", l)
			}
		})
	})
}

// TestPriorityIsAShareOfTheRuns keeps two models busy that exclude each other: priority 2 gets half the runs of 1.
func TestPriorityIsAShareOfTheRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g := ratelimit.New(nil), newGauge()
		need := map[string]int{"R": 1}
		var clients sync.WaitGroup
		var schedulers []*Scheduler
		for name, priority := range map[string]uint32{"first": 1, "second": 2} {
			s := employ(t, l, g, limitedModel(name, 1, priority, true, need), need, Config{Instances: 1, MaxQueue: 100})
			schedulers = append(schedulers, s)
			for range 60 {
				clients.Go(func() {
					r, err := s.Infer(t.Context(), request(1, 2))
					if err != nil {
						t.Error(err)
					}
					r.Release()
				})
			}
		}
		clients.Wait()
		counts := map[string]int{}
		for _, name := range g.runs[:60] {
			counts[name]++
		}
		if counts["first"] < 39 || counts["first"] > 41 || g.most["R"] != 1 {
			t.Errorf("of the first 60 runs: %v; %d at a time", counts, g.most["R"])
		}
		for _, s := range schedulers {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestLargeNeedIsNotStarved lets many small instances run against one that needs everything.
func TestLargeNeedIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g := ratelimit.New(nil), newGauge()
		small, large := map[string]int{"R": 1}, map[string]int{"R": 4}
		s := employ(t, l, g, limitedModel("small", 4, 1, false, small), small, Config{Instances: 4, MaxQueue: 1000})
		b := employ(t, l, g, limitedModel("large", 1, 1, false, large), large, Config{Instances: 1, MaxQueue: 10})
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for ctx.Err() == nil {
					r, err := s.Infer(context.Background(), request(1, 2))
					if err != nil {
						t.Error(err)
						return
					}
					r.Release()
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		begin := time.Now()
		r, err := b.Infer(t.Context(), request(1, 2))
		if err != nil || time.Since(begin) > 10*time.Millisecond {
			t.Errorf("waited %v, %v", time.Since(begin), err)
		}
		r.Release()
		cancel()
		clients.Wait()
		if err := errors.Join(s.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestLimiterRefuses(t *testing.T) {
	l := ratelimit.New(map[string]map[int]int{"R": {ratelimit.AnyDevice: 3}})
	first, err := l.Open(limitedModel("first", 1, 1, false, map[string]int{"R": 3, "S": 9}), 0)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	const much = `model "x": instance_group: rate_limiter: Resource count for "R" is limited to 3 which will prevent ` +
		`scheduling of one or more model instances, the minimum required count is 4`
	const both = `Resource "S" is present as both global and device-specific resource in the model configuration.`
	_, err = l.Open(limitedModel("x", 1, 1, false, map[string]int{"R": 4}), 0)
	refused(err, much)
	_, err = l.Open(limitedModel("x", 1, 1, true, map[string]int{"S": 1}), 0)
	refused(err, both)
	second, err := l.Open(limitedModel("x", 1, 1, false, map[string]int{"S": 1}), 0)
	if err != nil {
		t.Fatal(err)
	}
	refused(second.Resize(limitedModel("x", 2, 1, false, map[string]int{"R": 4})), much)
	refused(second.Resize(limitedModel("x", 2, 1, true, map[string]int{"S": 1})), both)
	first.Close()
	if err := second.Resize(limitedModel("x", 2, 1, true, map[string]int{"S": 1})); err != nil {
		t.Error(err)
	}
	second.Close()
	none, err := (*ratelimit.Limiter)(nil).Open(model(), 0)
	if none != nil || err != nil || none.Resize(model()) != nil || !none.Permit().Try() {
		t.Errorf("no limiter: %v, %v", none, err)
	}
	none.Close()
}

// TestResourcesAreThoseOfADevice counts on the device that an entry names, and elsewhere there is nothing.
func TestResourcesAreThoseOfADevice(t *testing.T) {
	l := ratelimit.New(map[string]map[int]int{"R": {1: 4, 2: 6}, "S": {ratelimit.AnyDevice: 1, 1: 5}})
	for _, test := range []struct {
		device int
		global bool
		needs  map[string]int
		limit  string // of the refusal; empty: none
	}{
		{0, false, map[string]int{"R": 1}, `"R" is limited to 0 `},
		{1, false, map[string]int{"R": 4, "S": 5}, ""},
		{1, false, map[string]int{"R": 5}, `"R" is limited to 4 `},
		{2, false, map[string]int{"S": 2}, `"S" is limited to 1 `},
		{0, true, map[string]int{"R": 6}, ""},
		{0, true, map[string]int{"R": 7}, `"R" is limited to 6 `},
	} {
		claim, err := l.Open(limitedModel("m", 1, 1, test.global, test.needs), test.device)
		if (err == nil) != (test.limit == "") || err != nil && !strings.Contains(err.Error(), test.limit) {
			t.Errorf("%v on device %d: %v", test.needs, test.device, err)
		}
		claim.Close()
	}
}

// TestPassiveInstancesTakeNoRequests counts the runs at a time.
func TestPassiveInstancesTakeNoRequests(t *testing.T) {
	m := limitedModel("m", 1, 1, false, nil)
	m.InstanceGroup = append(m.InstanceGroup, edgewise.InstanceGroup{Name: "p", Count: 5, Passive: true})
	if c := m.Concurrency(16); c.Instances != 1 {
		t.Errorf("%d loops", c.Instances)
	}
}
