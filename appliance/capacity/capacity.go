// Package capacity says whether the box carries models at rates, and which resource breaks first: from what requests to each
// model were measured to take, by a stated model of queues, which a run can be compared with.
package capacity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/idle"
	"github.com/edgewise-ai/edgewise/appliance/load"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

// Bounds of a question.
const (
	maxModels     = 16
	maxRate       = 1e6
	maxSeconds    = 60
	defaultCheck  = 5 * time.Second
	leastQuiet    = 2 * time.Second // without a request of a client, before something is measured
	mostWait      = 30 * time.Second
	maxProfiles   = 256
	maxPerCheck   = 500_000 // requests
	mostOfProfile = 30 * time.Second
)

// Config configures Capacities.
type Config struct {
	Infer   edgewise.Inferer // answers as it does the requests of clients, without counting them as such
	Idle    *idle.Watch
	Cores   int
	Memory  int64 // bytes that models may take; 0: not bounded
	Formats edgewise.Formats
	Record  func(name string) (*edgewise.Record, error)
	Version func(id edgewise.ModelID) (v *edgewise.Version, ready []int64, err error)
	// Ready returns nil when requests to a version are answered.
	Ready      func(id edgewise.ModelID) error
	Statistics func(id edgewise.ModelID) (edgewise.Statistics, error)
	Footprint  func(ctx context.Context, v *edgewise.Version) (manager.Footprint, error)
	Known      load.Known
	Device     func(id edgewise.ModelID) string // that it was measured to run best on; "" when it has no choice
	Time       func() time.Duration             // of processors, that the box and its processes have had
}

// Capacities answers one question at a time. It is safe for concurrent use.
type Capacities struct {
	config Config
	turn   chan struct{} // holds one token while a question is answered

	mu       sync.Mutex // guards what follows
	profiles map[edgewise.ModelID]*Profile
}

// New makes Capacities.
func New(c Config) *Capacities {
	return &Capacities{config: c, turn: make(chan struct{}, 1), profiles: map[edgewise.ModelID]*Profile{}}
}

// Ask answers a question. Errors: Invalid with Field; NotFound, Unavailable and Unsupported of a model; Busy when clients send
// requests while something has to be measured, or another question is being answered.
func (c *Capacities) Ask(ctx context.Context, ask admin.CapacityRequest) (*admin.Capacity, error) {
	const op = "capacity.Ask"
	if err := check(ask); err != nil {
		return nil, err
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	default:
		return nil, edgewise.Errorf(op, edgewise.Busy, "another question about the capacity is being answered")
	}
	s := Situation{Cores: c.config.Cores, Memory: c.config.Memory}
	var sources []*load.Source
	counted := map[edgewise.ModelID]bool{}
	unsaid := said()
	for _, m := range ask.Models {
		v, err := c.live(m.Model)
		if err != nil {
			return nil, err
		}
		src, origin, err := c.source(ctx, v)
		if err != nil {
			return nil, err
		}
		p, err := c.profile(ctx, v, src, origin, ask.Measure)
		if err != nil {
			return nil, err
		}
		s.Loads = append(s.Loads, Load{Profile: *p, Rate: m.Rate, Bound: m.P99 / 1000})
		sources = append(sources, src)
		if v.Model.ResponseCache != nil && v.Model.ResponseCache.Enable {
			unsaid = append(unsaid, fmt.Sprintf("%s has a response cache: requests that come again, as those of the measurement do, "+
				"cost less", m.Model))
		}
		if s.Needed, err = c.needs(ctx, v, counted, s.Needed); err != nil {
			return nil, err
		}
	}
	found := Predict(s)
	found.Unsaid = append(found.Unsaid, unsaid...)
	if ask.Check {
		var err error
		if found.Check, err = c.run(ctx, ask, sources, s.Loads); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// said is what no prediction knows.
func said() []string {
	return []string{
		"the network, reading and writing of requests by the frontends, and programs beside the box are not counted",
		"arrivals are taken as random and steady; bursts need more",
	}
}

// check says what is wrong with a question. Error: Invalid with Field.
func check(ask admin.CapacityRequest) error {
	const op = "capacity.Ask"
	if len(ask.Models) == 0 || len(ask.Models) > maxModels {
		return edgewise.Errorf(op, edgewise.Invalid, "models has %d entries: want 1 to %d", len(ask.Models),
			maxModels).WithField("models")
	}
	seconds, sum := ask.Seconds, 0.0
	if seconds < 0 || seconds > maxSeconds {
		return edgewise.Errorf(op, edgewise.Invalid, "seconds is %d: want 1 to %d, or 0 for %v", seconds, maxSeconds,
			defaultCheck).WithField("seconds")
	}
	seen := map[string]bool{}
	for _, m := range ask.Models {
		switch {
		case seen[m.Model]:
			return edgewise.Errorf(op, edgewise.Invalid, "model %q is named twice", m.Model).WithField("models")
		case !(m.Rate > 0 && m.Rate <= maxRate):
			return edgewise.Errorf(op, edgewise.Invalid, "the rate of model %q is %g: want more than 0 and at most %g requests a second",
				m.Model, m.Rate, float64(maxRate)).WithField("models")
		case !(m.P99 >= 0):
			return edgewise.Errorf(op, edgewise.Invalid, "p99_ms of model %q is %g: want 0 or more", m.Model, m.P99).WithField("models")
		}
		seen[m.Model] = true
		sum += m.Rate
	}
	if n := sum * checkTime(ask).Seconds(); ask.Check && n > maxPerCheck {
		return edgewise.Errorf(op, edgewise.Invalid, "a check of these rates sends %.0f requests: at most %d are sent", n,
			maxPerCheck).WithField("seconds")
	}
	return nil
}

func checkTime(ask admin.CapacityRequest) time.Duration {
	if ask.Seconds == 0 {
		return defaultCheck
	}
	return time.Duration(ask.Seconds) * time.Second
}

// live returns the live version of a model, which is ready and can be measured. Errors: NotFound, Unavailable, Unsupported.
func (c *Capacities) live(name string) (*edgewise.Version, error) {
	const op = "capacity.Ask"
	r, err := c.config.Record(name)
	if err != nil {
		return nil, err
	}
	v := r.Version(r.Label(edgewise.LiveLabel))
	if v == nil {
		return nil, edgewise.Errorf(op, edgewise.Unavailable, "model %q has no live version", name)
	}
	if err := c.config.Ready(v.ID); err != nil {
		return nil, err
	}
	for _, id := range c.leaves(v) {
		of, _, err := c.config.Version(id)
		if err != nil {
			return nil, err
		}
		format, _ := c.config.Formats.Of(of.Model)
		switch {
		case of.Model.Decoupled():
			return nil, edgewise.Errorf(op, edgewise.Unsupported, "%v cannot be measured: a request to it has any number of responses", id)
		case format.Remote:
			return nil, edgewise.Errorf(op, edgewise.Unsupported, "%v cannot be measured: it runs in a server beside the box", id)
		case format.Untried:
			return nil, edgewise.Errorf(op, edgewise.Unsupported, "%v cannot be measured: requests to it may have effects", id)
		}
	}
	return v, nil
}

// leaves are the versions that a request to a version runs: itself, or those of all steps of an ensemble.
func (c *Capacities) leaves(v *edgewise.Version) (ids []edgewise.ModelID) {
	if v.Model.EnsembleScheduling == nil {
		return []edgewise.ModelID{v.ID}
	}
	for _, id := range v.Model.Pins() {
		if of, _, err := c.config.Version(id); err == nil {
			for _, leaf := range c.leaves(of) {
				if !slices.Contains(ids, leaf) {
					ids = append(ids, leaf)
				}
			}
		}
	}
	return ids
}

// needs adds the memory of a version's leaves that were not counted yet.
func (c *Capacities) needs(ctx context.Context, v *edgewise.Version, counted map[edgewise.ModelID]bool, sum int64) (int64, error) {
	for _, id := range c.leaves(v) {
		if counted[id] {
			continue
		}
		counted[id] = true
		of, _, err := c.config.Version(id)
		if err != nil {
			return 0, err
		}
		needs, err := c.config.Footprint(ctx, of)
		if err != nil {
			return 0, err
		}
		sum += needs.Bytes
	}
	return sum, nil
}

// quiet waits for time without clients and other measurements, and returns a context that ends when a client comes. Error: Busy.
func (c *Capacities) quiet(ctx context.Context) (guarded context.Context, stop func(), err error) {
	limited, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	if err := c.config.Idle.Quiet(limited, leastQuiet); err != nil {
		if ctx.Err() != nil {
			return nil, nil, edgewise.Errorf("capacity.quiet", edgewise.KindOf(ctx.Err()), "%w", ctx.Err())
		}
		return nil, nil, edgewise.Errorf("capacity.quiet", edgewise.Busy, "clients have sent requests for %v: models are measured "+
			"when they do not", mostWait)
	}
	guarded, stop = c.config.Idle.Guard(ctx)
	return guarded, stop, nil
}

// interrupted is the error of a measurement that a client has ended.
func interrupted(err error) error {
	if errors.Is(err, idle.ErrTraffic) {
		return edgewise.Errorf("capacity.measure", edgewise.Busy, "the measurement ended: %w", idle.ErrTraffic)
	}
	return err
}
