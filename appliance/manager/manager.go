// Package manager decides which versions ought to be ready and gets them there: it loads beside what serves, moves the
// traffic, drains and unloads. Requests find their version through a table that is replaced whole, without a lock.
package manager

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Config configures a Manager.
type Config struct {
	// Load makes a servable of a version, warmed up and ready. It runs on a goroutine of its own.
	Load func(ctx context.Context, v *edgewise.Version) (edgewise.Servable, error)
	// Footprint estimates what a version takes. It runs where Load does. nil: no version takes anything.
	Footprint   func(ctx context.Context, v *edgewise.Version) (Footprint, error)
	Memory      int64         // bytes that all loaded versions may take together; 0: no bound
	Concurrency int           // loads at the same time; at least 1
	LoadTimeout time.Duration // of one load; 0: none
	Logger      *slog.Logger
}

// Manager keeps the versions that are wanted ready.
type Manager struct {
	config Config
	routes atomic.Pointer[table]
	loads  chan struct{} // one token for each load in progress
	work   sync.WaitGroup
	ctx    context.Context // ends when Close gives up on loads
	cancel context.CancelFunc

	mu      sync.Mutex // guards what follows
	models  map[string]*model
	changed chan struct{} // closed and replaced whenever a state changes
	closed  bool
}

// model is what the manager knows of one model.
type model struct {
	record  *edgewise.Record
	trial   []int64 // versions to be tried before a label moves to them
	serving int64
	slots   map[int64]*slot

	successor int64     // the version on trial that may take the others' place; 0: none
	alone     int64     // the successor, once the others had to go for it; 0: none
	gap       time.Time // since when nothing answers because of that; zero: something does
}

// New makes a manager without any model.
func New(c Config) *Manager {
	m := &Manager{config: c, loads: make(chan struct{}, max(c.Concurrency, 1)), models: map[string]*model{}, changed: make(chan struct{})}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.routes.Store(&table{})
	return m
}

// Resizer is a Servable that can follow a change of its model's instance groups while it serves. Resize returns at once
// and calls nobody back.
type Resizer interface {
	Resize(m *edgewise.Model)
}

// Want tells what is stored about a model now, and which versions are to be tried: loaded beside the aspired ones,
// without answering requests that do not name them. Versions that failed to load are loaded again. A version that is
// loaded and comes with other instance groups than before follows in place, without being loaded anew, if it is a
// Resizer; in nothing else may a version differ from what it was. It returns at once; see Settle.
func (m *Manager) Want(r *edgewise.Record, trial ...int64) { m.want(r, 0, trial) }

// Replace is Want with one version on trial that is to take the place of the one that serves. When there is too little
// memory for both and the version's Footprint says Gap, the others are unloaded first; when it then fails to load, they
// are loaded again.
func (m *Manager) Replace(r *edgewise.Record, version int64) { m.want(r, version, []int64{version}) }

func (m *Manager) want(r *edgewise.Record, successor int64, trial []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	mod := m.models[r.Name]
	if mod == nil {
		mod = &model{slots: map[int64]*slot{}}
		m.models[r.Name] = mod
	}
	mod.record, mod.trial, mod.successor, mod.alone = r, trial, successor, 0
	for number, s := range mod.slots {
		if s.state == edgewise.StateUnavailable {
			delete(mod.slots, number)
		}
		s.follow(r.Version(number))
	}
	m.reconcile(r.Name, mod)
}

// Forget unloads every version of a model that is no longer stored.
func (m *Manager) Forget(name string) { m.Want(&edgewise.Record{Name: name}) }

// reconcile does what next says for one model, and publishes the result. m.mu is held.
func (m *Manager) reconcile(name string, mod *model) {
	p := next(mod.snapshot())
	mod.serving = p.serving
	m.noteGap(name, mod, time.Now())
	for _, number := range p.forget {
		delete(mod.slots, number)
	}
	for _, number := range p.load {
		s := &slot{version: mod.record.Version(number), state: edgewise.StateLoading, since: time.Now()}
		mod.slots[number] = s
		m.work.Go(func() { m.load(name, s) })
	}
	var retired []*slot
	for _, number := range p.unload {
		s := mod.slots[number]
		s.to(edgewise.StateUnloading, time.Now())
		retired = append(retired, s)
	}
	if len(mod.record.Versions) == 0 && len(mod.slots) == 0 {
		delete(m.models, name)
	}
	m.publish()
	// Only now that no reader of the table finds them any more:
	for _, s := range retired {
		m.work.Go(func() { m.unload(name, s) })
	}
}

func (mod *model) snapshot() snapshot {
	s := snapshot{serving: mod.serving, alone: mod.alone, states: map[int64]edgewise.State{}}
	for _, v := range mod.record.Versions {
		s.stored = append(s.stored, v.ID.Version)
	}
	s.aspired, s.live = Aspired(mod.record)
	for _, number := range mod.trial {
		if mod.record.Version(number) != nil {
			s.trial = append(s.trial, number)
		}
	}
	for number, slot := range mod.slots {
		s.states[number] = slot.state
	}
	return s
}

// load makes one version ready or says why not.
func (m *Manager) load(name string, s *slot) {
	m.loads <- struct{}{}
	defer func() { <-m.loads }()
	ctx, cancel := m.ctx, context.CancelFunc(func() {})
	if m.config.LoadTimeout > 0 {
		ctx, cancel = context.WithTimeout(m.ctx, m.config.LoadTimeout)
	}
	defer cancel()
	start := time.Now()
	servable, err := m.loadSafely(ctx, s)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		s.to(edgewise.StateUnavailable, time.Now())
		s.reason, s.kind, s.bytes = err.Error(), edgewise.KindOf(err), 0
		if mod := m.models[name]; mod.alone == s.version.ID.Version {
			mod.alone = 0 // the others come back
		}
		m.config.Logger.Error("version failed to load", "model", name, "version", s.version.ID.Version, "kind", s.kind.String(), "reason", s.reason)
	} else {
		s.to(edgewise.StateReady, time.Now())
		s.handle = newHandle(servable)
		s.follow(m.models[name].record.Version(s.version.ID.Version))
		m.config.Logger.Info("version ready", "model", name, "version", s.version.ID.Version, "took", time.Since(start).Round(time.Millisecond).String())
	}
	m.reconcile(name, m.models[name])
}

// loadSafely keeps a panic while loading, which is our own bug, from ending the process.
func (m *Manager) loadSafely(ctx context.Context, s *slot) (loaded edgewise.Servable, err error) {
	v := s.version
	defer func() {
		if cause := recover(); cause != nil {
			err = edgewise.Errorf("manager.load", edgewise.Internal, "loading %v panicked: %v", v.ID, cause)
		}
	}()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("model %v was not loaded: %w", v.ID, err)
	}
	if err := m.reserve(ctx, v.ID.Name, s); err != nil {
		return nil, err
	}
	return m.config.Load(ctx, v)
}

// unload waits for the requests in flight and gives the version's memory back.
func (m *Manager) unload(name string, s *slot) {
	err := s.handle.retire()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.config.Logger.Error("version did not close cleanly", "model", name, "version", s.version.ID.Version, "error", err)
	} else {
		m.config.Logger.Info("version unloaded", "model", name, "version", s.version.ID.Version)
	}
	mod := m.models[name]
	delete(mod.slots, s.version.ID.Version)
	m.reconcile(name, mod)
}

// publish rebuilds the table and wakes those who wait for a change. m.mu is held.
func (m *Manager) publish() {
	t := make(table, len(m.models))
	for name, mod := range m.models {
		if len(mod.record.Versions) == 0 && len(mod.slots) == 0 {
			continue
		}
		t[name] = mod.route()
	}
	m.routes.Store(&t)
	close(m.changed)
	m.changed = make(chan struct{})
}

func (mod *model) route() *route {
	r := &route{replaced: mod.alone != 0, versions: make(map[int64]*target, len(mod.slots))}
	for _, v := range mod.record.Versions {
		r.stored = append(r.stored, v.ID.Version)
	}
	for number, s := range mod.slots {
		t := &target{version: s.version, status: edgewise.Status{ID: s.version.ID, State: s.state, Reason: s.reason, Since: s.since}}
		if s.state == edgewise.StateReady {
			t.handle = s.handle
		}
		r.versions[number] = t
		if number == mod.serving {
			r.serving = t
		}
	}
	return r
}
