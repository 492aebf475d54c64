package capacity_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/capacity"
	"github.com/edgewise-ai/edgewise/appliance/idle"
	"github.com/edgewise-ai/edgewise/appliance/load"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

// machine runs one model whose runs take 10 ms each on one core of two, two at a time.
type machine struct {
	slots       chan struct{}
	began, open atomic.Int64 // requests of clients

	mu    sync.Mutex // guards what follows
	stats edgewise.Statistics
	used  time.Duration
}

func newMachine() *machine { return &machine{slots: make(chan struct{}, 2)} }

const run = 10 * time.Millisecond

func (m *machine) Infer(ctx context.Context, _ *edgewise.Request) (*edgewise.Response, error) {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	time.Sleep(run)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += run
	m.stats.Executed(time.Now(), edgewise.Timing{Infer: run, Batch: 1})
	return &edgewise.Response{}, nil
}

func (m *machine) capacities() *capacity.Capacities {
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "a", Version: 1}, Model: &edgewise.Model{
		Name: "a", InstanceGroup: []edgewise.InstanceGroup{{Count: 2}},
	}}
	return capacity.New(capacity.Config{
		Infer: m, Cores: 2, Memory: 1 << 30, Idle: idle.New(func() (int64, int64) { return m.began.Load(), m.open.Load() }),
		Record: func(name string) (*edgewise.Record, error) {
			if name != "a" {
				return nil, edgewise.Errorf("test", edgewise.NotFound, "there is no model %q", name)
			}
			return &edgewise.Record{
				Name: "a", Versions: []*edgewise.Version{v}, Labels: []edgewise.Label{{Name: edgewise.LiveLabel, Version: 1}},
			}, nil
		},
		Version: func(edgewise.ModelID) (*edgewise.Version, []int64, error) { return v, nil, nil },
		Ready:   func(edgewise.ModelID) error { return nil },
		Statistics: func(edgewise.ModelID) (edgewise.Statistics, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			var s edgewise.Statistics
			s.Add(m.stats)
			return s, nil
		},
		Footprint: func(context.Context, *edgewise.Version) (manager.Footprint, error) {
			return manager.Footprint{Bytes: 1 << 20}, nil
		},
		Known: load.Known{Goldens: func(string) ([]*edgewise.Request, []admin.CompareRule, error) {
			return []*edgewise.Request{{Inputs: []edgewise.Tensor{{Name: "x"}}}}, nil, nil
		}},
		Device: func(edgewise.ModelID) string { return "cpu" },
		Time: func() time.Duration {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.used
		},
	})
}

func TestAPredictionIsWhatARunShows(t *testing.T) {
	for _, c := range []struct {
		rate float64
		held bool
	}{{0.5, true}, {20, true}, {150, true}, {215, false}, {240, false}} {
		t.Run(fmt.Sprintf("%.0f a second", c.rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := newMachine().capacities().Ask(t.Context(), admin.CapacityRequest{
					Models: []admin.CapacityModel{{Model: "a", Rate: c.rate}}, Check: true, Seconds: 20,
				})
				if err != nil {
					t.Fatal(err)
				}
				if got.Feasible != c.held || got.Check.Held != c.held {
					t.Errorf("feasible %v, held %v: want %v\n%+v\n%+v", got.Feasible, got.Check.Held, c.held, got, got.Check)
				}
				if alone := got.Models[0].Alone; math.Abs(alone-190) > 4 {
					t.Errorf("alone %.1f a second: want 95 %% of 200", alone)
				}
				one := got.Check.Models[0]
				if c.held && (one.P99 < 10 || one.P99 > 1.5*got.Models[0].P99) {
					t.Errorf("p99 %.1f ms, predicted %.1f ms", one.P99, got.Models[0].P99)
				}
				if !c.held && one.Reason != "the queue grew" {
					t.Errorf("it did not hold because %q", one.Reason)
				}
			})
		})
	}
}

func TestARequestOfAClientEndsTheMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		c := m.capacities()
		time.AfterFunc(3*time.Second, func() { m.began.Add(1) }) // 2 s of quiet, and then it measures
		_, err := c.Ask(t.Context(), admin.CapacityRequest{Models: []admin.CapacityModel{{Model: "a", Rate: 1}}})
		if edgewise.KindOf(err) != edgewise.Busy || !strings.Contains(err.Error(), "a client has sent a request") {
			t.Errorf("%v", err)
		}
		m.open.Add(1) // a client that does not stop
		_, err = c.Ask(t.Context(), admin.CapacityRequest{Models: []admin.CapacityModel{{Model: "a", Rate: 1}}})
		if edgewise.KindOf(err) != edgewise.Busy || !strings.Contains(err.Error(), "clients have sent requests for 30s") {
			t.Errorf("%v", err)
		}
	})
}

func TestOneQuestionIsAnsweredAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newMachine().capacities()
		ask := admin.CapacityRequest{Models: []admin.CapacityModel{{Model: "a", Rate: 1}}}
		done := make(chan error, 1)
		go func() { _, err := c.Ask(t.Context(), ask); done <- err }()
		synctest.Wait()
		if _, err := c.Ask(t.Context(), ask); edgewise.KindOf(err) != edgewise.Busy {
			t.Errorf("%v", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestQuestionsAreBounded(t *testing.T) {
	many := make([]admin.CapacityModel, 17)
	for i := range many {
		many[i] = admin.CapacityModel{Model: fmt.Sprint("m", i), Rate: 1}
	}
	one := func(rate, p99 float64) []admin.CapacityModel {
		return []admin.CapacityModel{{Model: "a", Rate: rate, P99: p99}}
	}
	for _, c := range []struct {
		name string
		ask  admin.CapacityRequest
		says string
	}{
		{"no model", admin.CapacityRequest{}, "models has 0 entries"},
		{"models", admin.CapacityRequest{Models: many}, "models has 17 entries: want 1 to 16"},
		{"a model twice", admin.CapacityRequest{Models: append(one(1, 0), one(2, 0)...)}, "named twice"},
		{"rate", admin.CapacityRequest{Models: one(1_000_001, 0)}, "at most 1e+06"},
		{"no rate", admin.CapacityRequest{Models: one(0, 0)}, "want more than 0"},
		{"latency", admin.CapacityRequest{Models: one(1, -1)}, "want 0 or more"},
		{"seconds", admin.CapacityRequest{Models: one(1, 0), Check: true, Seconds: 61}, "want 1 to 60"},
		{"requests of a check", admin.CapacityRequest{Models: one(100_001, 0), Check: true}, "at most 500000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newMachine().capacities().Ask(t.Context(), c.ask)
			if edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: want it to say %q", err, c.says)
			}
		})
	}
}
