// Package roofline measures once what the processor does at most, and says what bounds a model beside that.
package roofline

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/idle"
)

// Bucket is the bucket of the measurement, under Key. docs/formats/box.md gives the form.
const (
	Bucket = "roofline"
	Key    = "cpu"
)

// When the machine is measured.
const (
	lookEvery  = 10 * time.Second
	idleAfter  = time.Minute     // without a request of a client, before it is measured by itself
	leastQuiet = 2 * time.Second // the same, when somebody asks
	mostWait   = 30 * time.Second
	again      = 10 * time.Minute // after a measurement that failed
)

// Config configures a Meter.
type Config struct {
	Documents edgewise.Documents
	Idle      *idle.Watch
	// Load writes an ONNX model into a folder and loads it as a model of the box, with so many threads.
	Load     func(ctx context.Context, dir string, file []byte, threads int) (edgewise.Instance, error)
	Cores    int    // that the models have
	Hardware string // a measurement of other hardware does not hold
	Folder   string // for the models that are run, while they are
	Logger   *slog.Logger
}

// Meter measures the machine. It is safe for concurrent use.
type Meter struct {
	config Config
	turn   chan struct{} // holds one token while it is measured

	mu    sync.Mutex // guards what follows
	found *admin.Roofline
	kept  time.Time // when that was measured by this process
}

// New makes a Meter, and reads what was measured before.
func New(c Config) *Meter {
	m := &Meter{config: c, turn: make(chan struct{}, 1)}
	_ = c.Documents.View(func(tx edgewise.DocumentsTx) error {
		var r admin.Roofline
		if text := tx.Get(Bucket, Key); text != nil && json.Unmarshal(text, &r) == nil {
			m.found = &r
		}
		return nil
	})
	return m
}

// Get returns what was measured, and says in Stale why that does not hold here. Error: NotFound.
func (m *Meter) Get() (*admin.Roofline, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == nil {
		return nil, edgewise.Errorf("roofline.Get", edgewise.NotFound, "the processor was not measured yet: "+
			"that is done when no client has sent a request for %v, or by edgewise roofline --measure", idleAfter)
	}
	r := *m.found
	if r.Hardware != m.config.Hardware {
		r.Stale = "it was measured on " + r.Hardware + ", and this is " + m.config.Hardware
	}
	return &r, nil
}

// valid returns what was measured of this hardware; nil when nothing was.
func (m *Meter) valid() *admin.Roofline {
	if r, err := m.Get(); err == nil && r.Stale == "" {
		return r
	}
	return nil
}

// Measure measures the machine when no client has sent a request for 2 seconds and nothing else is measured, and keeps the
// figures. While it is being measured it waits for those figures. Errors: Busy when clients send requests; ctx's; those of the
// runtime.
func (m *Meter) Measure(ctx context.Context) (*admin.Roofline, error) {
	const op = "roofline.Measure"
	asked := time.Now()
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, edgewise.Errorf(op, edgewise.KindOf(ctx.Err()), "%w", ctx.Err())
	}
	if r := m.since(asked); r != nil {
		return r, nil
	}
	limited, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	if err := m.config.Idle.Quiet(limited, leastQuiet); err != nil {
		if ctx.Err() != nil {
			return nil, edgewise.Errorf(op, edgewise.KindOf(ctx.Err()), "%w", ctx.Err())
		}
		return nil, edgewise.Errorf(op, edgewise.Busy, "clients have sent requests for %v: the processor is measured when they do not", mostWait)
	}
	guarded, stop := m.config.Idle.Guard(ctx)
	defer stop()
	r, err := m.measure(guarded)
	switch {
	case errors.Is(err, idle.ErrTraffic) || errors.Is(context.Cause(guarded), idle.ErrTraffic):
		return nil, edgewise.Errorf(op, edgewise.Busy, "the measurement of the processor ended: %w", idle.ErrTraffic)
	case err != nil:
		return nil, err
	}
	return r, m.keep(r)
}

// since returns what was measured after a moment; nil when nothing was.
func (m *Meter) since(moment time.Time) *admin.Roofline {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.kept.After(moment) {
		return nil
	}
	r := *m.found
	return &r
}

func (m *Meter) keep(r *admin.Roofline) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = m.config.Documents.Update(func(tx edgewise.DocumentsTx) error { return tx.Put(Bucket, Key, text) })
	}
	m.mu.Lock()
	m.found, m.kept = r, time.Now()
	m.mu.Unlock()
	m.config.Logger.Info("the processor was measured", "gflops_one", r.Compute[0]/1e9, "gflops_all", r.Compute[1]/1e9,
		"gbytes_one", r.Read[0]/1e9, "gbytes_all", r.Read[1]/1e9, "operator_us", r.Operator, "seconds", r.Took)
	return err
}

// Run measures the machine once, when no client has sent a request for a while, unless that was done; until ctx ends.
func (m *Meter) Run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var failed time.Time
	for m.valid() == nil {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if m.config.Idle.Since() < idleAfter || time.Since(failed) < again {
			continue
		}
		if _, err := m.Measure(ctx); err != nil && ctx.Err() == nil && edgewise.KindOf(err) != edgewise.Busy {
			failed = time.Now()
			m.config.Logger.Warn("the processor could not be measured", "error", err)
		}
	}
}

// CheckDocument tells whether a document is a measurement.
func CheckDocument(value []byte) error {
	var r admin.Roofline
	if err := json.Unmarshal(value, &r); err != nil {
		return edgewise.Errorf("roofline.CheckDocument", edgewise.Invalid, "%w", err)
	}
	if !(r.Compute[0] > 0 && r.Read[0] > 0) || r.Cores < 1 {
		return edgewise.Errorf("roofline.CheckDocument", edgewise.Invalid, "it has no figures")
	}
	return nil
}
