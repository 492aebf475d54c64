// Package recordings keeps a share of the requests of clients with their answers on disk, for the models that say so.
//
// A recorded request is a file of the form of appliance/example. Nothing here delays a request: what comes faster than
// it can be written is dropped and counted, and a full disk ends the recording, not the serving.
package recordings

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	random "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/example"
	"github.com/edgewise-ai/edgewise/appliance/tap"
)

const (
	queued        = 64          // requests that may wait to be written; further ones are dropped
	sweepInterval = time.Minute // how often requests are deleted whose retention is over
	warnInterval  = time.Minute // the log has at most one line in this time about requests of a model that are not recorded
)

// Config are the parts that recordings use. All are required.
type Config struct {
	Folder    string // has a folder for each model
	Documents edgewise.Documents
	Tap       *tap.Tap // of the requests of clients
	// Room returns why size more bytes on the disk would be too many, nil when they are not.
	Room func(size int64) error
	// Record returns what is stored of a model. Errors: NotFound.
	Record func(name string) (*edgewise.Record, error)
	Logger *slog.Logger
}

// Recordings are the recorded requests of all models. It is safe for concurrent use.
type Recordings struct {
	cfg    Config
	secret []byte
	shares atomic.Pointer[map[string]float64] // of the models that are recorded

	encoder example.Encoder // of receive, which the subscription calls in one goroutine

	changing     sync.Mutex        // held while settings change
	subscription *tap.Subscription // nil: no model is recorded
	closed       bool              // nothing is recorded any more

	mu     sync.Mutex // guards models
	models map[string]*recording
}

// recording is that of one model.
type recording struct {
	folder *folder

	mu       sync.Mutex // guards the fields below, and is held while a request is written
	settings admin.RecordingSettings
	recorded uint64
	skipped  uint64
	problem  string
	warned   time.Time
}

// Open reads the settings, and which requests are there, and begins to record. A model whose folder cannot be read is not
// recorded: the log says so. Errors: those of reading Documents.
func Open(cfg Config) (*Recordings, error) {
	r := &Recordings{cfg: cfg, models: map[string]*recording{}}
	folders, err := os.ReadDir(cfg.Folder)
	if ignoreMissing(err) != nil {
		cfg.Logger.Error("recorded requests cannot be read", "error", err)
	}
	for _, f := range folders {
		if f.IsDir() && edgewise.CheckName(f.Name()) == nil {
			r.openOrTell(f.Name())
		}
	}
	if err := r.load(); err != nil {
		return nil, err
	}
	r.apply()
	return r, nil
}

// openOrTell returns the recording of a model, nil when it cannot be read, which the log says.
func (r *Recordings) openOrTell(name string) *recording {
	m, err := r.of(name)
	if err != nil {
		r.cfg.Logger.Error("the recorded requests of a model cannot be read: it is not recorded", "model", name, "error", err)
	}
	return m
}

// load reads the documents, and makes the secret of hashes where there is none. Without room on the disk the secret is
// another one after the next start.
func (r *Recordings) load() error {
	found := map[string]admin.RecordingSettings{}
	err := r.cfg.Documents.View(func(tx edgewise.DocumentsTx) error {
		r.secret = slices.Clone(tx.Get(secretBucket, secretKey))
		return tx.Each(Bucket, func(name string, value []byte) error {
			s, err := Decode(value)
			if err != nil {
				r.cfg.Logger.Error("the settings of a recording are damaged: nothing is recorded", "model", name, "error", err)
				return nil
			}
			found[name] = s
			return nil
		})
	})
	for name, s := range found {
		if m := r.openOrTell(name); m != nil {
			m.settings = s
		}
	}
	if err != nil || len(r.secret) == secretBytes {
		return err
	}
	r.secret = make([]byte, secretBytes)
	_, _ = rand.Read(r.secret) // never fails
	err = r.cfg.Documents.Update(func(tx edgewise.DocumentsTx) error { return tx.Put(secretBucket, secretKey, r.secret) })
	if err != nil {
		r.cfg.Logger.Error("the key of hashes of masked tensors was not stored", "error", err)
	}
	return nil
}

// Close ends the recording.
func (r *Recordings) Close() {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.subscribe(nil)
	r.closed = true
}

// of returns the recording of a model, which may be a new one. Errors: those of the disk.
func (r *Recordings) of(name string) (*recording, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.models[name]; m != nil {
		return m, nil
	}
	f, err := openFolder(filepath.Join(r.cfg.Folder, name))
	if err != nil {
		return nil, err
	}
	m := &recording{folder: f, settings: defaults()}
	r.models[name] = m
	return m, nil
}

// known returns the recording of a model, nil when there is none.
func (r *Recordings) known(name string) *recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.models[name]
}

// apply has the models recorded whose settings say so. r.changing is held, or nobody else knows r.
func (r *Recordings) apply() {
	shares := map[string]float64{}
	r.mu.Lock()
	for name, m := range r.models {
		m.mu.Lock()
		if m.settings.Enabled {
			shares[name] = m.settings.Share
		}
		m.mu.Unlock()
	}
	r.mu.Unlock()
	r.subscribe(shares)
}

// subscribe takes requests while some model is recorded.
func (r *Recordings) subscribe(shares map[string]float64) {
	r.shares.Store(&shares)
	switch {
	case r.closed:
	case len(shares) > 0 && r.subscription == nil:
		r.subscription = r.cfg.Tap.Subscribe(tap.Subscriber{Wants: r.wants, Receive: r.receive, Queue: queued})
	case len(shares) == 0 && r.subscription != nil:
		r.subscription.Close()
		r.subscription = nil
		r.encoder = example.Encoder{}
	}
}

// wants tells whether a request to a model is to be recorded.
func (r *Recordings) wants(id edgewise.ModelID, err error) bool {
	share := (*r.shares.Load())[id.Name]
	return share > 0 && (share >= 1 || random.Float64() < share) && tells(err)
}

// tells tells whether what a request ended with says something about the model, and not about load or the client.
func tells(err error) bool {
	if err == nil {
		return true
	}
	kind := edgewise.KindOf(err)
	return kind == edgewise.Invalid || kind == edgewise.Guest || kind == edgewise.Internal
}

// receive records a request. It holds m.mu while it writes, so that changed settings hold for all that comes later.
func (r *Recordings) receive(f *tap.Finished) {
	m := r.known(f.Model.Name)
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.settings.Enabled {
		return
	}
	err := r.write(m, &m.settings, f)
	if m.problem = ""; err == nil {
		m.recorded++
		return
	}
	m.skipped++
	m.problem = err.Error()
	if now := time.Now(); now.Sub(m.warned) >= warnInterval {
		m.warned = now
		r.cfg.Logger.Warn("a request was not recorded", "model", f.Model.Name, "error", err)
	}
}

// write masks a request and adds it to the folder of its model.
func (r *Recordings) write(m *recording, s *admin.RecordingSettings, f *tap.Finished) error {
	e, err := r.masked(s, f)
	if err != nil {
		return err
	}
	data, err := r.encoder.Encode(e)
	if err != nil {
		return err
	}
	size := onDisk(int64(len(data)))
	if size > s.QuotaBytes {
		return fmt.Errorf("it takes %d bytes: the quota is %d", size, s.QuotaBytes)
	}
	if err := m.folder.trim(MaxRequests-1, s.QuotaBytes-size, since(s)); err != nil {
		return err
	}
	if err := r.cfg.Room(size); err != nil {
		return err
	}
	return m.folder.add(entry{version: f.Model.Version, took: f.Took, failed: f.Err != nil, at: time.Now()}, data)
}

// since returns when the oldest request that is kept was recorded.
func since(s *admin.RecordingSettings) time.Time {
	return time.Now().Add(-time.Duration(s.RetentionSeconds) * time.Second)
}

// maskable returns the signature of a version, or why its requests cannot be masked.
func (r *Recordings) maskable(s *admin.RecordingSettings, id edgewise.ModelID) (*edgewise.Model, error) {
	record, err := r.cfg.Record(id.Name)
	if err != nil {
		return nil, err
	}
	v := record.Version(id.Version)
	if v == nil {
		return nil, fmt.Errorf("version %d is not stored", id.Version)
	}
	if missing, ok := hidden(s.Masks, v.Model); !ok {
		return nil, fmt.Errorf("version %d has no tensor %q, which is masked: its requests are not recorded", id.Version, missing)
	}
	return v.Model, nil
}

// masked returns what is recorded of a request. With masks, what may hold a masked tensor under another name is left
// out: the text of an error, and tensors that the version does not have.
func (r *Recordings) masked(s *admin.RecordingSettings, f *tap.Finished) (*example.Example, error) {
	resp := f.Response
	if resp == nil || f.Err != nil {
		resp = &edgewise.Response{}
	}
	e := example.Of(&f.Request, resp)
	e.Model, e.Arrived, e.Took = f.Model, f.Began, f.Took
	if f.Err != nil {
		e.Error = f.Err.Error()
	}
	if len(s.Masks) == 0 {
		return e, nil
	}
	signature, err := r.maskable(s, f.Model)
	if err != nil {
		return nil, err
	}
	e.Inputs, e.MaskedInputs = mask(s.Masks, r.secret, declared(e.Inputs, signature.Inputs()))
	e.Outputs, e.MaskedOutputs = mask(s.Masks, r.secret, declared(e.Outputs, signature.Outputs()))
	if f.Err != nil {
		e.Error = edgewise.KindOf(f.Err).String()
	}
	return e, nil
}

// Run deletes requests whose retention is over, until ctx ends.
func (r *Recordings) Run(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		r.sweep()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *Recordings) sweep() {
	r.mu.Lock()
	all := maps.Clone(r.models)
	r.mu.Unlock()
	for name, m := range all {
		m.mu.Lock()
		s := m.settings
		m.mu.Unlock()
		if err := m.folder.trim(MaxRequests, s.QuotaBytes, since(&s)); err != nil {
			r.cfg.Logger.Error("recorded requests cannot be deleted", "model", name, "error", err)
		}
	}
}
