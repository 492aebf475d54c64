// Package rollout makes a version live by stages: a candidate gets a growing share of the requests that name no version,
// is compared with the live version while both answer, and is taken back when it is worse.
package rollout

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/observe"
	"github.com/edgewise-ai/edgewise/appliance/tap"
	"github.com/edgewise-ai/edgewise/host"
)

// Bucket is the bucket of the rollouts, by model. docs/formats/box.md gives the form of its documents.
const Bucket = "rollouts"

// Bounds.
const (
	maxActive  = 64 // rollouts in progress
	maxEvents  = 64 // of a rollout
	interval   = time.Second
	saveEvery  = 10 * time.Second // of what is measured
	retryAfter = 10 * time.Second // a move that has failed
	lateParts  = 32               // in which the stake of the watch is bet
)

// Manager sends requests to versions. manager.Manager describes the methods.
type Manager interface {
	Split(name string, s manager.Split)
	Await(ctx context.Context, id edgewise.ModelID) error
	Statuses() []edgewise.Status
}

// Models moves labels. registry.Registry describes the methods.
type Models interface {
	Lookup(name string) *edgewise.Record
	Changeable(op, name string) error
	SetLabel(ctx context.Context, name, label string, version int64) (admin.LabelMove, error)
	Rollback(ctx context.Context, name, label string) (admin.LabelMove, error)
}

// Config configures Rollouts.
type Config struct {
	Documents edgewise.Documents
	Manager   Manager
	Models    Models
	// Prove has a loaded version answer the goldens of its model. An error says why it may not go live.
	Prove func(ctx context.Context, id edgewise.ModelID) error
	// What shadows need.
	Tap   *tap.Tap
	Infer edgewise.Inferer                                // answers requests to exact versions
	Rules func(model string) ([]admin.CompareRule, error) // of the outputs of a model
	Idle  func() bool                                     // tells whether there are cores that nothing waits for
	// Threads reads those of the process of a version; none when it has no process of its own.
	Threads func(id edgewise.ModelID) map[int]host.Thread

	Publish  func(topic string, data any)     // tells those who listen of each change
	Alert    func(kind, subject, text string) // tells people that the box has taken a candidate back
	Audit    func(e admin.AuditEntry) error   // notes what the box has done by itself
	Interval time.Duration                    // at which the rollouts are looked at; 0: a second
	Logger   *slog.Logger
}

// Rollouts is every model's present or latest rollout. It is safe for concurrent use.
type Rollouts struct {
	config Config
	trials atomic.Pointer[map[string]*trial] // of those in progress; a stored map is not changed
	wake   chan struct{}                     // holds one token when a rollout has to go back

	mu       sync.Mutex // guards what follows
	all      map[string]*rollout
	starting map[string]bool // models whose candidates are being loaded
}

// rollout is one rollout. Its state machine, in which a step to the left is a step back and anything else is a bug:
//
//	running -> promoting -> watching -> done
//	   |           |           |
//	   +-----------+           +-> reverting -> rolled_back
//	   +-> rolled_back, stopped    +-> stopped
//
// Each state may also end as replaced.
type rollout struct {
	moves   chan struct{} // holds one token while somebody changes it
	unsaved atomic.Bool   // the latest change is not on disk

	shown admin.Rollout // guarded by Rollouts.mu; what it points to is not changed
	trial *trial

	telling sync.Mutex  // is held while the manager is told a split, so that the latest one stays; guards over
	over    bool        // no split follows
	gone    atomic.Bool // its model is deleted: nothing of it is stored
	shadow  atomic.Pointer[shadow]

	// What follows is guarded by moves.
	stepped, saved time.Time
	retry          time.Time // no move is tried before
	ready          bool      // requests count
	byHand         bool      // somebody asked for what is being done
}

// stored is the document of a rollout.
type stored struct {
	Rollout  admin.Rollout `json:"rollout"`
	Measured measured      `json:"measured"`
}

// Check tells whether a document is one of a rollout.
func Check(key string, value []byte) error {
	_, err := decode(key, value)
	return err
}

func decode(key string, value []byte) (s stored, err error) {
	if err := json.Unmarshal(value, &s); err != nil {
		return s, edgewise.Errorf("rollout.decode", edgewise.Invalid, "%w", err)
	}
	if s.Rollout.Model != key || s.Rollout.Stage < 0 || s.Rollout.Stage >= len(s.Rollout.Plan.Stages) {
		return s, edgewise.Errorf("rollout.decode", edgewise.Invalid, "it is not the rollout of model %.80q", key)
	}
	return s, complete(&s.Rollout.Plan)
}

// Open reads the stored rollouts. Those in progress go on where they were, or one step back, once Run is called; the
// manager knows their splits when Open returns.
func Open(c Config) *Rollouts {
	s := &Rollouts{config: c, wake: make(chan struct{}, 1), all: map[string]*rollout{}, starting: map[string]bool{}}
	var list []stored
	err := c.Documents.View(func(tx edgewise.DocumentsTx) error {
		return tx.Each(Bucket, func(key string, value []byte) error {
			found, err := decode(key, value)
			if err != nil {
				c.Logger.Error("a rollout is damaged and does not go on: edgewise doctor says more", "model", key, "error", err)
				return nil
			}
			list = append(list, found)
			return nil
		})
	})
	if err != nil {
		c.Logger.Error("the rollouts cannot be read: none goes on", "error", err)
	}
	for _, found := range list {
		s.all[found.Rollout.Model] = s.resume(found)
	}
	s.publishTrials()
	s.wakeUp()
	return s
}

// resume makes a stored rollout go on, in the same stage or back.
func (s *Rollouts) resume(found stored) *rollout {
	r := &rollout{shown: found.Rollout, moves: make(chan struct{}, 1)}
	shown := &r.shown
	if !shown.Active() {
		return r
	}
	r.trial = s.newTrial(shown, found.Measured.resume())
	live := int64(0)
	if record := s.config.Models.Lookup(shown.Model); record != nil {
		live = record.Label(edgewise.LiveLabel)
	}
	text := "the box has started again"
	if shown.State == admin.RolloutPromoting && live != shown.Plan.Version {
		shown.State, text = admin.RolloutRunning, text+": the candidate had not become live"
	}
	note(shown, text)
	r.unsaved.Store(true)
	s.config.Manager.Split(shown.Model, splitOf(shown))
	return r
}

// splitOf returns the split of a rollout in a state.
func splitOf(r *admin.Rollout) manager.Split {
	from, to := r.From, r.Plan.Version
	switch r.State {
	case admin.RolloutRunning, admin.RolloutPromoting:
		return manager.Split{Live: from, Version: to, Share: r.Percent / 100, Sticky: r.Plan.Sticky}
	case admin.RolloutWatching:
		return manager.Split{Live: to, Version: from}
	case admin.RolloutReverting:
		return manager.Split{Live: to, Version: from, Share: 1}
	}
	return manager.Split{}
}

// split tells the manager the split of a rollout, unless that is over.
func (s *Rollouts) split(r *rollout, shown *admin.Rollout) {
	r.telling.Lock()
	defer r.telling.Unlock()
	if !r.over {
		s.config.Manager.Split(shown.Model, splitOf(shown))
	}
}

// unsplit ends the split of a rollout, for good.
func (s *Rollouts) unsplit(r *rollout, model string) {
	r.telling.Lock()
	defer r.telling.Unlock()
	if !r.over {
		r.over = true
		s.config.Manager.Split(model, manager.Split{})
	}
}

// note adds an event.
func note(r *admin.Rollout, text string) {
	events := append(slices.Clone(r.Events), admin.RolloutEvent{
		Time: time.Now().UTC(), State: r.State, Stage: r.Stage, Text: text,
	})
	r.Events = events[max(0, len(events)-maxEvents):]
}

func (s *Rollouts) newTrial(r *admin.Rollout, m measured) *trial {
	p := r.Plan
	t := &trial{
		live: r.From, candidate: p.Version, bound: boundOf(&p), metric: newMetric(&p), slower: *p.LatencyPercent / 100,
		longer: time.Duration(*p.LatencyMicroseconds) * time.Microsecond, m: m, breached: s.wakeUp,
	}
	if p.Shadow != nil {
		t.disagree = *p.Shadow.DisagreementPercent / 100
	}
	return t
}

// wakeUp makes Run look at the rollouts now.
func (s *Rollouts) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Observe counts a request that named no version and has come to one, id. It reads the response before it returns.
func (s *Rollouts) Observe(
	id edgewise.ModelID, req *edgewise.Request, resp *edgewise.Response, began time.Time, took time.Duration, err error,
) {
	if t := (*s.trials.Load())[id.Name]; t != nil {
		t.observe(id.Version, began, took, err, t.metric.client(req, resp, err))
	}
}

// publishTrials makes Observe find the rollouts in progress.
func (s *Rollouts) publishTrials() {
	s.mu.Lock()
	defer s.mu.Unlock()
	trials := map[string]*trial{}
	for name, r := range s.all {
		if r.shown.Active() {
			trials[name] = r.trial
		}
	}
	s.trials.Store(&trials)
}

// Get returns the present or the latest rollout of a model. Errors: NotFound.
func (s *Rollouts) Get(name string) (admin.Rollout, error) {
	r := s.find(name)
	if r == nil {
		return admin.Rollout{}, edgewise.Errorf("rollout.Get", edgewise.NotFound, "model %q had no rollout", name)
	}
	return s.describe(r), nil
}

// List returns the present or the latest rollout of each model, by name, without the worst differences.
func (s *Rollouts) List() []admin.Rollout {
	list := []admin.Rollout{}
	for _, r := range s.rollouts() {
		shown := s.describe(r)
		if shown.Shadow != nil {
			comparison := *shown.Shadow
			comparison.Worst = []admin.RolloutDifference{}
			shown.Shadow = &comparison
		}
		list = append(list, shown)
	}
	slices.SortFunc(list, func(a, b admin.Rollout) int { return strings.Compare(a.Model, b.Model) })
	return list
}

// Metrics returns the rollouts in progress for the metrics.
func (s *Rollouts) Metrics() []observe.Rollout {
	var list []observe.Rollout
	for _, r := range s.List() {
		if !r.Active() {
			continue
		}
		m := observe.Rollout{
			Model: r.Model, Candidate: r.Plan.Version, State: r.State, Stage: r.Stage + 1, Share: r.Percent / 100,
			Evidence: map[string]float64{},
		}
		for _, e := range r.Evidence {
			m.Evidence[e.Condition] = e.Value / e.Bound
		}
		list = append(list, m)
	}
	return list
}

func (s *Rollouts) find(name string) *rollout {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name]
}

func (s *Rollouts) rollouts() []*rollout {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.all))
}

// get returns a rollout as it was changed last.
func (s *Rollouts) get(r *rollout) admin.Rollout {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.shown
}

// describe is get with what has been measured by now.
func (s *Rollouts) describe(r *rollout) admin.Rollout {
	shown := s.get(r)
	if r.trial != nil && shown.Active() {
		m, _ := r.trial.read()
		if h := r.shadow.Load(); h != nil {
			_, dropped := h.sub.Counts()
			m.Shadow.Dropped += dropped
		}
		measure(&shown, &m)
	}
	return shown
}

// measure adds what was measured.
func measure(r *admin.Rollout, m *measured) {
	r.Live, r.Candidate = m.Live.shown(), m.Candidate.shown()
	if r.Plan.Shadow != nil {
		r.Shadow = m.Shadow.shown()
	}
	if metric := newMetric(&r.Plan); metric != nil {
		r.Metric = metric.describe(&m.Metric)
	}
	watch := r.State == admin.RolloutWatching || r.State == admin.RolloutReverting
	r.Evidence = m.evidence(boundOf(&r.Plan), watch)
}

// Forget forgets the rollout of a model that is deleted, and its plan.
func (s *Rollouts) Forget(name string) {
	err := s.config.Documents.Update(func(tx edgewise.DocumentsTx) error { return tx.Delete(SettingsBucket, name) })
	if err != nil {
		s.config.Logger.Error("the plan of a model that is deleted stays stored", "model", name, "error", err)
	}
	s.mu.Lock()
	r := s.all[name]
	delete(s.all, name)
	s.mu.Unlock()
	if r == nil {
		return
	}
	r.gone.Store(true)
	r.closeShadow()
	s.publishTrials()
	s.unsplit(r, name)
	err = s.config.Documents.Update(func(tx edgewise.DocumentsTx) error { return tx.Delete(Bucket, name) })
	if err != nil {
		s.config.Logger.Error("the rollout of a model that is deleted stays stored", "model", name, "error", err)
	}
}

// save stores a rollout as shown says, with what was measured.
func (s *Rollouts) save(r *rollout, shown *admin.Rollout) error {
	m := newMeasured()
	if r.trial != nil {
		m, _ = r.trial.read()
	}
	measure(shown, &m)
	text, err := json.Marshal(stored{*shown, m})
	if err != nil {
		return edgewise.Errorf("rollout.save", edgewise.Internal, "%w", err)
	}
	return s.config.Documents.Update(func(tx edgewise.DocumentsTx) error {
		if r.gone.Load() {
			return nil
		}
		return tx.Put(Bucket, shown.Model, text)
	})
}
