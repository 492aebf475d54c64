package fleet

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// Bucket is the bucket of the document that a box follows and of what it did. It is in no backup: a box that is restored asks again.
const Bucket = "fleet"

// The documents of Bucket.
const (
	acceptedKey = "accepted"
	stateKey    = "state"
)

// Bounds of what the box does.
const (
	pollTimeout    = 2 * time.Minute // asking the source, and reading reports
	reportTimeout  = time.Minute
	importTimeout  = time.Hour // of one attempt; the next one goes on where it has ended
	maxLook        = 10 * time.Second
	firstBackOff   = 10 * time.Second // or the interval, when that is shorter; doubles with each failure
	maxBackOff     = time.Hour
	maxAttempts    = 5   // of a version that fails to load, before it counts as taken back
	maxReports     = 100 // of a group
	maxReport      = 256 << 10
	maxFirstPoll   = time.Minute
	actionsAtATime = 4 * maxModels
)

// Models is what a fleet needs of the registry of models. registry.Registry describes the methods.
type Models interface {
	Lookup(name string) *edgewise.Record
	GoLive(ctx context.Context, id edgewise.ModelID, numbered bool) (admin.LabelMove, error)
	SetLabel(ctx context.Context, name, label string, version int64) (admin.LabelMove, error)
}

// Rollouts is what a fleet needs of rollouts. rollout.Rollouts describes the methods.
type Rollouts interface {
	Get(model string) (admin.Rollout, error)
	Start(ctx context.Context, model string, plan admin.RolloutPlan) (admin.Rollout, error)
}

// Box has the settings of the box.
type Box interface {
	Settings() admin.Settings
	ChangeSettings(c admin.SettingsChange) (admin.Settings, error)
}

// Remote fetches and sends small files. remote.Registries describes the methods.
type Remote interface {
	Files(ctx context.Context, url string, want func(name string) bool, most int, bytes int64) (map[string][]byte, error)
	Put(ctx context.Context, url, name string, data []byte) error
}

// Config is what a Fleet works with.
type Config struct {
	Fleet     config.Fleet
	Version   string // of the program
	Documents edgewise.Documents
	Models    Models
	Rollouts  Rollouts
	Box       Box
	Remote    Remote
	// Install stores the version that a reference names, as one of a model. importer.Importer describes it.
	Install func(ctx context.Context, model, reference string) (*edgewise.Version, error)
	// CheckPlan returns why a plan of a rollout cannot be used.
	CheckPlan func(admin.RolloutSettings) error
	// Post sends a message as JSON to a URL.
	Post   func(ctx context.Context, url string, message any) error
	Now    func() time.Time // nil: the clock of the machine
	Logger *slog.Logger
}

// Fleet makes the box follow the document of its fleet. It is safe for concurrent use. Without a source it does nothing.
type Fleet struct {
	config Config
	wake   chan struct{} // holds one token when the source is to be asked now

	mu       sync.Mutex // guards what follows
	current  *accepted  // nil: there is none
	trusted  bool       // keys of the box have signed current
	state    state
	failures map[string]failure // by Entry.key; of settings by ""
	reports  map[string]evidence
	failed   uint64 // in all
	asked    time.Time
	problem  string // why the source brought nothing to follow
	sent     string // the report that was sent last, without its time
	reported time.Time
	unsent   string // why the present report was not sent
}

// failure is what keeps an entry from being done for now.
type failure struct {
	attempts int
	until    time.Time // it is not tried before
	reason   string
}

// New makes a Fleet. It starts nothing and reads nothing.
func New(c Config) *Fleet {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Fleet{config: c, wake: make(chan struct{}, 1)}
}

// Run follows the document of the fleet until ctx ends. It returns at once where there is no source.
func (f *Fleet) Run(ctx context.Context) {
	interval := f.config.Fleet.Interval
	if f.config.Fleet.Source == "" {
		return
	}
	f.load()
	poll := time.Now().Add(min(time.Duration(rand.Int64N(int64(interval)/4+1)), maxFirstPoll))
	for ctx.Err() == nil {
		f.converge(ctx)
		f.report(ctx)
		timer := time.NewTimer(max(min(time.Until(poll), f.pause()), 0))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-f.wake:
			poll = time.Now()
		}
		timer.Stop()
		if ctx.Err() == nil && !time.Now().Before(poll) {
			f.poll(ctx)
			poll = time.Now().Add(interval*3/4 + time.Duration(rand.Int64N(int64(interval)/2+1)))
		}
	}
}

// pause is the time after which there may be something to do without news from the source.
func (f *Fleet) pause() time.Duration {
	if f.Status().State == admin.FleetMoving {
		return min(f.config.Fleet.Interval, maxLook)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	pause := time.Duration(math.MaxInt64)
	for _, failed := range f.failures {
		if left := time.Until(failed.until); left > 0 {
			pause = min(pause, left)
		}
	}
	return pause
}

// Poll makes Run ask the source now.
func (f *Fleet) Poll() error {
	if f.config.Fleet.Source == "" {
		return edgewise.Errorf("fleet.Poll", edgewise.Conflict, "this box follows no fleet: fleet.source is empty")
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return nil
}

// load reads the document that was followed before the start, and what was done.
func (f *Fleet) load() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clear()
	var kept accepted
	err := f.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		for key, into := range map[string]any{acceptedKey: &kept, stateKey: &f.state} {
			if text := tx.Get(Bucket, key); text != nil {
				if err := json.Unmarshal(text, into); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		f.config.Logger.Error("what the fleet wanted of this box cannot be read: it is asked for again", "error", err)
		f.clear()
		return
	}
	f.clear()
	if kept.Text == nil {
		return
	}
	f.current = &kept
	if kept.document, err = Decode(kept.Text); err != nil { // of a later release: its serial counts all the same
		kept.document = &Document{Fleet: kept.Fleet, Serial: kept.Serial}
	}
	found, err := f.believe(kept.Text, kept.Signature)
	if f.trusted = err == nil; err != nil {
		f.problem = err.Error()
	} else {
		kept.signed = found.signed
	}
}

// CheckDocument tells whether a document is one of Bucket.
func CheckDocument(key string, value []byte) error {
	switch key {
	case acceptedKey:
		var a accepted
		return json.Unmarshal(value, &a)
	case stateKey:
		return json.Unmarshal(value, &state{})
	}
	return nil
}

// clear makes the maps. f.mu is held.
func (f *Fleet) clear() {
	if f.state.Attempts == nil {
		f.state.Attempts = map[string]attempt{}
	}
	if f.state.Contents == nil {
		f.state.Contents = map[string]edgewise.Digest{}
	}
	f.failures, f.reports = map[string]failure{}, map[string]evidence{}
}

// believe decodes a document that a key of the box has signed, and checks its plans.
func (f *Fleet) believe(text, signature []byte) (*accepted, error) {
	keys, err := keysIn(f.config.Fleet.TrustedKeys)
	if err != nil {
		return nil, err
	}
	a, err := believe(keys, text, signature)
	if err == nil {
		err = f.checkPlans(a.document)
	}
	return a, err
}

func (f *Fleet) checkPlans(d *Document) error {
	for i, e := range d.Models {
		if e.Rollout == nil {
			continue
		}
		if err := f.config.CheckPlan(admin.RolloutSettings{Plan: e.Rollout}); err != nil {
			return edgewise.Errorf("fleet.checkPlans", edgewise.Invalid, "%s: models[%d]: rollout: %w", File, i, err)
		}
	}
	return nil
}

// poll asks the source, and reads the reports that the document waits for.
func (f *Fleet) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	text, signature, err := f.read(ctx)
	if err == nil {
		err = f.take(text, signature)
	}
	if err != nil && ctx.Err() != nil && edgewise.KindOf(err) == edgewise.Canceled {
		return // the box stops
	}
	f.mu.Lock()
	f.asked = f.config.Now()
	problem := ""
	if err != nil {
		problem = brief(err.Error())
		f.failed++
	}
	news := problem != f.problem && problem != ""
	f.problem = problem
	current := f.current
	f.mu.Unlock()
	if news {
		f.config.Logger.Warn("the fleet's source brings nothing to follow", "source", f.config.Fleet.Source, "error", err)
	}
	if current != nil && slices.ContainsFunc(f.Status().Wishes, undone) {
		f.collect(ctx, current.document)
	}
}

// undone tells whether a wish may need reports.
func undone(w admin.Wish) bool { return w.State != admin.WishDone }

// take follows a document, if it is to be believed. Errors: Denied, Invalid, TooLarge, and those of the documents of the box.
func (f *Fleet) take(text, signature []byte) error {
	a, err := f.believe(text, signature)
	f.mu.Lock()
	before := f.current
	if before != nil && before.Digest == digestOf(text) {
		if f.trusted = err == nil; err == nil { // perhaps by another key, or its time
			before.signed = a.signed
		}
		f.mu.Unlock()
		return err
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	if err := a.succeeds(before, f.config.Now()); err != nil {
		return err
	}
	a.Time, a.Fleet, a.Serial = f.config.Now().UTC(), a.document.Fleet, a.document.Serial
	kept := f.pruned(a.document)
	if err := f.store(map[string]any{acceptedKey: a, stateKey: kept}); err != nil {
		return err
	}
	f.mu.Lock()
	f.current, f.trusted, f.state = a, true, kept
	f.failures, f.reports = map[string]failure{}, map[string]evidence{}
	f.mu.Unlock()
	f.config.Logger.Info("the box follows a document of its fleet", "fleet", a.document.Fleet, "serial", a.document.Serial, "digest", a.Digest,
		"signed_by", a.SignedBy)
	return nil
}

// pruned is what is remembered of what a document names.
func (f *Fleet) pruned(d *Document) state {
	kept := state{map[string]attempt{}, map[string]edgewise.Digest{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range d.Models {
		if a, there := f.state.Attempts[e.key()]; there {
			kept.Attempts[e.key()] = a
		}
		if c, there := f.state.Contents[e.digest()]; there {
			kept.Contents[e.digest()] = c
		}
	}
	return kept
}

func (f *Fleet) store(documents map[string]any) error {
	return f.config.Documents.Update(func(tx edgewise.DocumentsTx) error {
		for key, value := range documents {
			text, err := json.Marshal(value)
			if err != nil {
				return edgewise.Errorf("fleet.store", edgewise.Internal, "%w", err)
			}
			if err := tx.Put(Bucket, key, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// Forget makes the box forget the document that it follows, so that it may follow one of another fleet, or one with a lower serial.
// What it did stays.
func (f *Fleet) Forget() error {
	err := f.config.Documents.Update(func(tx edgewise.DocumentsTx) error {
		if err := tx.Delete(Bucket, stateKey); err != nil {
			return err
		}
		return tx.Delete(Bucket, acceptedKey)
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.current, f.state, f.sent = nil, state{}, ""
	f.clear()
	f.mu.Unlock()
	if f.config.Fleet.Source == "" {
		return nil
	}
	return f.Poll()
}

// member is the box as groups see it.
func (f *Fleet) member() member {
	m := member{name: f.config.Fleet.Box, labels: map[string]string{}}
	if m.name == "" {
		m.name = f.config.Box.Settings().Name
	}
	for _, pair := range f.config.Fleet.Labels {
		name, value, _ := strings.Cut(pair, "=")
		m.labels[name] = value
	}
	return m
}
