// Package tune finds the configuration of a model that suits an objective best on this machine: it loads candidates beside
// what serves, while no client needs the machine, measures them, and makes a version of the best one.
package tune

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/idle"
	"github.com/edgewise-ai/edgewise/appliance/load"
	"github.com/edgewise-ai/edgewise/appliance/loopback"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

// Models are the stored models. registry.Registry describes the methods.
type Models interface {
	Record(name string) (*edgewise.Record, error)
	Records() []*edgewise.Record
	Changeable(op, name string) error
	Declared(id edgewise.ModelID) (text []byte, file string, err error)
	Configured(ctx context.Context, id edgewise.ModelID, declared *edgewise.Model) (*edgewise.Model, error)
	Beside(ctx context.Context, id edgewise.ModelID, declared *edgewise.Model) (*manager.Beside, error)
	Push(ctx context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error)
	DeleteVersion(ctx context.Context, id edgewise.ModelID) error
}

// Energy tells what the machine uses. serving.Energy describes the methods.
type Energy interface {
	Measures(kind edgewise.DeviceKind) error
	Read() (joules float64, err error)
}

// Config configures a Tuner.
type Config struct {
	Documents edgewise.Documents
	Models    Models
	Formats   edgewise.Formats
	Cores     int
	MaxQueue  int  // requests that wait at a step of an ensemble
	InProcess bool // models may run in the box's own process
	// Device returns the device that a version was measured to run best on; "" when it has no choice.
	Device func(id edgewise.ModelID) string
	// Energy tells what the machine uses.
	Energy Energy
	// Machine describes what versions of a format run on.
	Machine func(f edgewise.Format) []string
	// Known finds the requests that a model is measured with.
	Known load.Known
	// Loopback sends requests to candidates as clients would.
	Loopback loopback.Config
	// Idle tells when no client needs the machine.
	Idle *idle.Watch
	// Changed is called when a tuning was queued, has begun or has ended.
	Changed func(id edgewise.ModelID)
	Logger  *slog.Logger
}

// Bounds of tunings.
const (
	maxQueued    = 8 // tunings that wait for their turn
	defaultLimit = 5 * time.Minute
	leastLimit   = 10 * time.Second
	mostLimit    = time.Hour
)

// Tuner tunes one model at a time. It is safe for concurrent use.
type Tuner struct {
	config Config
	wake   chan struct{}      // holds one token when a tuning was queued
	tried  []edgewise.ModelID // versions whose tuning began by itself since the box was started; used by Run alone

	mu     sync.Mutex // guards what follows
	latest map[string]*job
	queue  []*job
}

// job is one tuning.
type job struct {
	ctx     context.Context // of the caller, without its end
	cancel  context.CancelFunc
	version *edgewise.Version
	store   bool // the version does not go live

	shown admin.Tuning // guarded by Tuner.mu
	ended time.Time
}

// New makes a Tuner.
func New(c Config) *Tuner {
	return &Tuner{config: c, wake: make(chan struct{}, 1), latest: map[string]*job{}}
}

// Start queues a tuning of a model's live version. Errors: NotFound, Invalid with Field, Conflict while it is tuned or has
// no live version, Unsupported for what cannot be tuned, Busy when too many wait.
func (t *Tuner) Start(ctx context.Context, name string, ask admin.TuneRequest) (admin.Tuning, error) {
	const op = "tune.Start"
	v, err := t.subject(op, name)
	if err != nil {
		return admin.Tuning{}, err
	}
	limit := time.Duration(ask.Seconds) * time.Second
	if limit == 0 {
		limit = defaultLimit
	}
	if limit < leastLimit || limit > mostLimit {
		return admin.Tuning{}, edgewise.Errorf(op, edgewise.Invalid, "seconds is %d: want %d to %d", ask.Seconds,
			leastLimit/time.Second, mostLimit/time.Second).WithField("seconds")
	}
	var o admin.TuneObjective
	if ask.Objective != nil {
		o = *ask.Objective
	} else if said, err := ownOf(v.Model); err == nil {
		o = said.TuneObjective
	}
	if err := check(o); err != nil {
		return admin.Tuning{}, err
	}
	if err := t.mayChange(ctx, op, v); err != nil {
		return admin.Tuning{}, err
	}
	if err := t.energetic(o, v); err != nil {
		return admin.Tuning{}, err
	}
	j := &job{version: v, store: ask.StoreOnly, shown: admin.Tuning{
		Model: name, Version: v.ID.Version, Objective: o, State: admin.TuneQueued, Started: time.Now().UTC(),
		Limit: int(limit / time.Second), Actor: edgewise.PrincipalOf(ctx).Actor(),
	}}
	j.ctx, j.cancel = context.WithCancel(context.WithoutCancel(ctx))
	begun, err := t.enqueue(j)
	if err == nil {
		t.config.Changed(v.ID)
	}
	return begun, err
}

// enqueue queues a tuning. Errors: Conflict, Busy.
func (t *Tuner) enqueue(j *job) (admin.Tuning, error) {
	const op = "tune.Start"
	name := j.shown.Model
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.latest[name]; old != nil && old.shown.Active() {
		j.cancel()
		return old.describe(), edgewise.Errorf(op, edgewise.Conflict, "model %q is being tuned: stop that first", name)
	}
	if len(t.queue) >= maxQueued {
		j.cancel()
		return admin.Tuning{}, edgewise.Errorf(op, edgewise.Busy, "%d tunings wait for their turn, the most that is allowed",
			maxQueued)
	}
	t.latest[name], t.queue = j, append(t.queue, j)
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return j.describe(), nil
}

// subject returns the live version of a model that can be tuned.
func (t *Tuner) subject(op, name string) (*edgewise.Version, error) {
	record, err := t.config.Models.Record(name)
	if err != nil {
		return nil, err
	}
	if err := t.config.Models.Changeable(op, name); err != nil {
		return nil, err
	}
	v := record.Version(record.Label(edgewise.LiveLabel))
	if v == nil || !record.Wanted {
		return nil, edgewise.Errorf(op, edgewise.Conflict, "model %q has no live version to tune: load it, or make one live", name)
	}
	return v, t.tunable(op, v)
}

// tunable says why a version cannot be tuned. Error: Unsupported.
func (t *Tuner) tunable(op string, v *edgewise.Version) error {
	if v.Model.EnsembleScheduling == nil {
		if why := t.untunable(v.Model); why != "" {
			return edgewise.Errorf(op, edgewise.Unsupported, "model %q cannot be tuned: %s", v.ID.Name, why)
		}
		return nil
	}
	parts, err := t.partsOf(v)
	if err != nil {
		return err
	}
	for _, p := range parts {
		why := t.untunable(p.Model)
		if p.Model.EnsembleScheduling != nil {
			why = "it is an ensemble itself"
		}
		if why != "" {
			return edgewise.Errorf(op, edgewise.Unsupported, "ensemble %q cannot be tuned: of its model %q: %s", v.ID.Name, p.ID.Name, why)
		}
	}
	return nil
}

// untunable says why nothing can be measured of a model; "" where it can.
func (t *Tuner) untunable(m *edgewise.Model) string {
	format, _ := t.config.Formats.Of(m)
	switch {
	case m.Decoupled():
		return "a request to it has any number of responses"
	case format.Remote:
		return "it runs in a server beside the box"
	case format.Untried:
		return "requests to it may have effects, so that none is made up"
	}
	return ""
}

// Get returns the present or the latest tuning of a model since the box was started. Errors: NotFound.
func (t *Tuner) Get(name string) (admin.Tuning, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.latest[name]
	if j == nil {
		return admin.Tuning{}, edgewise.Errorf("tune.Get", edgewise.NotFound,
			"model %q was not tuned since the box was started", name)
	}
	return j.describe(), nil
}

// Stop ends a tuning. What serves stays as it is. Errors: NotFound, Conflict when it has ended.
func (t *Tuner) Stop(name string) (admin.Tuning, error) {
	t.mu.Lock()
	j := t.latest[name]
	if j == nil || !j.shown.Active() {
		t.mu.Unlock()
		shown, err := t.Get(name)
		if err == nil {
			err = edgewise.Errorf("tune.Stop", edgewise.Conflict, "the tuning of model %q has ended: %s", name, shown.State)
		}
		return shown, err
	}
	j.end(admin.TuneStopped)
	t.mu.Unlock()
	j.cancel()
	t.config.Changed(edgewise.ModelID{Name: name})
	return t.Get(name)
}

// end notes how a tuning ended, unless it has. Tuner.mu is held.
func (j *job) end(state string) {
	if j.shown.Active() {
		j.shown.State, j.shown.Phase, j.ended = state, "", time.Now()
	}
}

// describe is what is shown of a tuning. Tuner.mu is held.
func (j *job) describe() admin.Tuning {
	shown, until := j.shown, j.ended
	if until.IsZero() {
		until = time.Now()
	}
	shown.Seconds = until.Sub(shown.Started).Seconds()
	return shown
}

// Forget ends the tuning of a model that is deleted, and removes the reports about a version or all of them.
func (t *Tuner) Forget(id edgewise.ModelID) error {
	if id.Version == 0 {
		_, _ = t.Stop(id.Name)
		t.mu.Lock()
		delete(t.latest, id.Name)
		t.mu.Unlock()
	}
	return t.forgetReports(id)
}

// Run tunes one model after the other until ctx ends.
func (t *Tuner) Run(ctx context.Context) {
	ticker := time.NewTicker(idleLook)
	defer ticker.Stop()
	for {
		for j := t.pop(); j != nil && ctx.Err() == nil; j = t.pop() {
			t.tune(ctx, j)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-ticker.C:
			t.lookForIdle()
		}
	}
}

// waiting is how many tunings wait for their turn.
func (t *Tuner) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue)
}

// pop takes the next tuning out of the queue, nil when there is none.
func (t *Tuner) pop() *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) > 0 {
		j := t.queue[0]
		t.queue = t.queue[1:]
		if j.shown.Active() {
			return j
		}
	}
	return nil
}
