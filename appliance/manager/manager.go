// Package manager decides which versions ought to be ready and gets them there: it loads beside what serves, moves the
// traffic, drains and unloads. Requests find their version through a table that is replaced whole, without a lock.
package manager

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Config configures a Manager.
type Config struct {
	// Load loads a version, which is warmed up and ready then. It runs on a goroutine of its own.
	Load func(ctx context.Context, v *edgewise.Version) (*Loaded, error)
	// Footprint estimates what a version takes. It runs where Load does. nil: no version takes anything.
	Footprint func(ctx context.Context, v *edgewise.Version) (Footprint, error)
	// Measured is told what a version takes at the most, when that is another eighth. It may write that to the disk. nil:
	// nobody is told.
	Measured func(id edgewise.ModelID, bytes int64)
	// Replaces tells whether a ready version has to be loaded again to become what is stored under its number now; where it
	// need not be, the version is resized. It depends on its arguments alone. nil: none ever has to be.
	Replaces    func(old, now *edgewise.Version) bool
	Memory      int64         // bytes that all loaded versions may take together; 0: no bound
	Concurrency int           // loads at the same time, and beside them starts of processes again; at least 1
	LoadTimeout time.Duration // of one load; 0: none
	// SequenceDrain is how long a version that is to be unloaded goes on answering the sequences that it has begun; 0: not
	// at all.
	SequenceDrain time.Duration
	Logger        *slog.Logger
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
	holds   map[edgewise.ModelID]int // how many loaded or loading ensembles need a version
	splits  map[string]Split
	changed chan struct{} // closed and replaced whenever a state changes
	closed  bool
	line    []*slot     // versions that wait for their turn to be started again
	scarce  atomic.Bool // versions rest for lack of memory; written by Watch
}

// model is what the manager knows of one model.
type model struct {
	record  *edgewise.Record
	trial   []int64 // versions to be tried before a label moves to them
	serving int64
	slots   map[int64]*slot
	beside  map[*slot]bool // replacements that are loading, and versions that were replaced and are not unloaded yet

	successor int64            // the version on trial that may take the live one's place; 0: none
	fell      map[int64]string // why versions stopped working that are to be loaded again
	alone     int64            // the successor, once the live one had to go for it; 0: none
	leaving   []int64          // those of the record, until they had to go for the live one
	gap       time.Time        // since when nothing answers because of that; zero: something does

	drawn atomic.Uint64 // requests that a split has sent each for itself
}

// New makes a manager without any model.
func New(c Config) *Manager {
	m := &Manager{
		config: c, loads: make(chan struct{}, max(c.Concurrency, 1)), models: map[string]*model{},
		holds: map[edgewise.ModelID]int{}, splits: map[string]Split{}, changed: make(chan struct{}),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.routes.Store(&table{})
	return m
}

// Want tells what is stored about a model now, and which versions are to be tried: loaded beside the aspired ones,
// without answering requests that do not name them. Versions that failed to load are loaded again. A version that is
// ready and differs from what is stored under its number now is resized, or is replaced: see Config.Replaces. It
// returns at once; see Settle.
func (m *Manager) Want(r *edgewise.Record, trial ...int64) { m.want(r, 0, trial) }

// Replace is Want with one version on trial that is to take the place of the one that serves. When there is too little
// memory for both and the version's Footprint says Gap, the live one is unloaded first; when the version then fails to
// load, the live one is loaded again.
func (m *Manager) Replace(r *edgewise.Record, version int64) { m.want(r, version, []int64{version}) }

func (m *Manager) want(r *edgewise.Record, successor int64, trial []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	mod := m.know(r)
	mod.trial, mod.successor, mod.alone = trial, successor, 0
	for number, s := range mod.slots {
		if s.state == edgewise.StateUnavailable {
			mod.again(number)
		}
		s.refused, s.refusal = nil, nil
	}
	m.reconcile(r.Name, mod)
}

// Start is Want for everything that is stored. The parts of ensembles are known before the first ensemble is loaded.
func (m *Manager) Start(records []*edgewise.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	for _, r := range records {
		m.know(r)
	}
	for _, r := range records {
		m.reconcile(r.Name, m.models[r.Name])
	}
}

// know takes over what is stored about a model. m.mu is held.
func (m *Manager) know(r *edgewise.Record) *model {
	mod := m.models[r.Name]
	if mod == nil {
		mod = &model{slots: map[int64]*slot{}, beside: map[*slot]bool{}, fell: map[int64]string{}}
		m.models[r.Name] = mod
	}
	mod.record, mod.leaving = r, r.Leaving
	return mod
}

// Forget unloads every version of a model that is no longer stored.
func (m *Manager) Forget(name string) { m.Want(&edgewise.Record{Name: name}) }

// reconcile does what next says for one model, and publishes the result. m.mu is held.
func (m *Manager) reconcile(name string, mod *model) {
	m.stepAside(name, mod)
	p := next(m.snapshot(name, mod))
	mod.serving = p.serving
	m.noteGap(name, mod, time.Now())
	for _, number := range p.forget {
		delete(mod.slots, number)
	}
	for _, number := range p.load {
		s := &slot{version: mod.record.Version(number), state: edgewise.StateLoading, since: time.Now()}
		s.reason, s.fallen = mod.fell[number], mod.fell[number] != ""
		delete(mod.fell, number)
		mod.slots[number] = s
		m.work.Go(func() { m.load(name, s) })
	}
	var retired []*slot
	for _, number := range p.unload {
		s := mod.slots[number]
		s.to(edgewise.StateUnloading, time.Now())
		s.draining = m.drains(s)
		retired = append(retired, s)
	}
	m.renew(name, mod)
	if mod.gone() {
		delete(m.models, name)
	}
	m.publish()
	// Only now that no reader of the table finds them any more:
	for _, s := range retired {
		m.work.Go(func() { m.unload(name, s) })
	}
}

// snapshot is all that next looks at. m.mu is held.
func (m *Manager) snapshot(name string, mod *model) snapshot {
	s := snapshot{serving: mod.serving, alone: mod.alone, leaving: mod.leaving, states: map[int64]edgewise.State{}}
	for _, v := range mod.record.Versions {
		s.stored = append(s.stored, v.ID.Version)
	}
	s.aspired, s.live = Aspired(mod.record)
	for _, number := range slices.Concat(mod.trial, m.splitVersions(mod.record)) {
		if mod.record.Version(number) != nil {
			s.trial = append(s.trial, number)
		}
	}
	for number, slot := range mod.slots {
		s.states[number] = slot.state
	}
	s.held = m.held(name)
	return s
}

// load makes one version ready or says why not. An ensemble's parts are loaded first, and kept until it is unloaded.
func (m *Manager) load(name string, s *slot) {
	start := time.Now()
	loaded, err := (*Loaded)(nil), m.holdParts(s.version)
	if err == nil {
		loaded, err = m.loadInTurn(s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.replaces != nil {
		m.renewed(name, s, loaded, err)
		return
	}
	if err != nil {
		m.releaseParts(s.version)
		s.to(edgewise.StateUnavailable, time.Now())
		s.reason, s.kind, s.bytes, s.fallen = err.Error(), edgewise.KindOf(err), 0, false
		if mod := m.models[name]; mod.alone == s.version.ID.Version {
			mod.alone = 0 // the old one comes back
		}
		m.config.Logger.Error("version failed to load", "model", name, "version", s.version.ID.Version, "kind",
			s.kind.String(), "reason", s.reason)
	} else {
		s.to(edgewise.StateReady, time.Now())
		s.reason, s.fallen = "", false
		s.handle = newHandle(s.version.ID, loaded)
		m.settleMemory(name, s)
		m.watch(name, s, s.handle)
		m.config.Logger.Info("version ready", "model", name, "version", s.version.ID.Version, "took",
			time.Since(start).Round(time.Millisecond).String())
	}
	m.reconcile(name, m.models[name])
}

// loadInTurn loads when fewer versions than allowed are loading, within the time for one load.
func (m *Manager) loadInTurn(s *slot) (*Loaded, error) {
	m.loads <- struct{}{}
	defer func() { <-m.loads }()
	ctx, cancel := m.ctx, context.CancelFunc(func() {})
	if m.config.LoadTimeout > 0 {
		ctx, cancel = context.WithTimeout(m.ctx, m.config.LoadTimeout)
	}
	defer cancel()
	return m.loadSafely(ctx, s)
}

// loadSafely keeps a panic while loading, which is our own bug, from ending the process.
func (m *Manager) loadSafely(ctx context.Context, s *slot) (loaded *Loaded, err error) {
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
	m.drain(s)
	err := s.handle.retire()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.config.Logger.Error("version did not close cleanly", "model", name, "version", s.version.ID.Version, "error", err)
	} else {
		m.config.Logger.Info("version unloaded", "model", name, "version", s.version.ID.Version)
	}
	m.releaseParts(s.version)
	mod := m.models[name]
	if mod.slots[s.version.ID.Version] == s {
		delete(mod.slots, s.version.ID.Version)
	} else {
		delete(mod.beside, s)
	}
	m.reconcile(name, mod)
}

// publish rebuilds the table and wakes those who wait for a change. m.mu is held.
func (m *Manager) publish() {
	t := make(table, len(m.models))
	for name, mod := range m.models {
		if mod.gone() {
			continue
		}
		t[name] = mod.route(m.held(name))
		m.divide(name, mod, t[name])
	}
	m.routes.Store(&t)
	close(m.changed)
	m.changed = make(chan struct{})
}

// gone tells whether nothing is left of a model.
func (mod *model) gone() bool {
	return len(mod.record.Versions) == 0 && len(mod.slots) == 0 && len(mod.beside) == 0
}

func (mod *model) route(held []int64) *route {
	r := &route{replaced: mod.alone != 0, versions: make(map[int64]*target, len(mod.slots))}
	for _, v := range mod.record.Versions {
		r.stored = append(r.stored, v.ID.Version)
	}
	r.stored = append(r.stored, mod.leaving...)
	r.stored = append(r.stored, held...) // when everything ends, an ensemble's parts outlive what is stored of them
	for s := range mod.beside {
		r.drain(s)
	}
	for number, s := range mod.slots {
		t := &target{version: s.version, status: edgewise.Status{
			ID: s.version.ID, State: s.state, Reason: s.reason,
			Since: s.since, Took: s.took, Fallen: s.fallen,
		}}
		if s.state == edgewise.StateReady {
			t.handle = s.handle
		}
		r.drain(s)
		r.versions[number] = t
		if number == mod.serving {
			r.serving = t
		}
	}
	return r
}
