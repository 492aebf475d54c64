package observe

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// The modes and levels of tracing, and the names of its settings, in the protocol's words.
const (
	modeOpenTelemetry = "opentelemetry"

	levelOff        = "OFF"
	levelTimestamps = "TIMESTAMPS"
	levelTensors    = "TENSORS"

	settingLevel     = "trace_level"
	settingRate      = "trace_rate"
	settingCount     = "trace_count"
	settingFrequency = "log_frequency"
)

// TraceConfig configures a Tracer.
type TraceConfig struct {
	Settings edgewise.TraceSettings // at the start; Mode and File never change
	Export   Export                 // with the mode opentelemetry
	Logger   *slog.Logger
}

// Tracer decides which requests are traced, and hands their traces on. It is safe for concurrent use.
type Tracer struct {
	config TraceConfig
	file   *traceFile // nil: traces are not written
	spans  *spans     // nil: traces are not exported
	ids    atomic.Uint64
	on     atomic.Bool // some request may be traced

	epoch time.Time // the monotonic clock read monotonic nanoseconds then
	clock int64

	mu     sync.Mutex // guards what follows
	server sampler
	models map[string]*sampler // of the models that have settings of their own
}

var _ edgewise.Tracing = (*Tracer)(nil)

// sampler is a set of settings and what it has seen. Of a model, what is nil is the server's.
type sampler struct {
	levels                 []string
	rate, count, frequency *int64
	seen                   int64
}

// NewTracer makes a tracer. Errors: Invalid (the exporter's configuration).
func NewTracer(c TraceConfig) (*Tracer, error) {
	t := &Tracer{config: c, models: map[string]*sampler{}, epoch: time.Now()}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		t.clock = now.Nano()
	}
	t.server = fresh(c.Settings)
	t.setOn()
	if c.Settings.Mode == modeOpenTelemetry {
		var err error
		t.spans, err = newSpans(c.Export)
		return t, err
	}
	if c.Settings.File != "" {
		t.file = &traceFile{path: c.Settings.File, logger: c.Logger}
	}
	return t, nil
}

func fresh(s edgewise.TraceSettings) sampler {
	rate, count, frequency := s.Rate, s.Count, s.LogFrequency
	return sampler{levels: s.Levels, rate: &rate, count: &count, frequency: &frequency}
}

// setOn tells those who ask cheaply. mu is held, or nobody else knows t.
func (t *Tracer) setOn() {
	on := traces(t.server.levels)
	for _, m := range t.models {
		on = on || traces(m.levels)
	}
	t.on.Store(on)
}

func traces(levels []string) bool {
	return slices.Contains(levels, levelTimestamps) || slices.Contains(levels, levelTensors)
}

// On tells whether any request may be traced.
func (t *Tracer) On() bool { return t.on.Load() }

// Begin starts the trace of a request; nil when it is not traced.
func (t *Tracer) Begin(start edgewise.TraceStart) edgewise.TracedRequest {
	if !t.on.Load() {
		return nil
	}
	levels, frequency, sampled := t.sample(start)
	if !sampled {
		return nil
	}
	r := &tracedRequest{
		tracer: t, start: start, begun: time.Now(), frequency: frequency,
		tensors: slices.Contains(levels, levelTensors), timestamps: slices.Contains(levels, levelTimestamps),
	}
	r.root = &traced{request: r, id: t.ids.Add(1), model: start.Model}
	if t.spans != nil {
		t.spans.begin(r)
	}
	return r
}

// sample tells whether the next request is traced, and counts it.
func (t *Tracer) sample(start edgewise.TraceStart) (levels []string, frequency int64, sampled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.models[start.Model.Name]
	if s == nil {
		s = &t.server
	}
	levels = s.levels
	if levels == nil {
		levels = t.server.levels
	}
	if !traces(levels) {
		return nil, 0, false
	}
	rate, count := *either(s.rate, t.server.rate), either(s.count, t.server.count)
	frequency = *either(s.frequency, t.server.frequency)
	if start.Parent != "" && t.spans != nil {
		return levels, frequency, true
	}
	s.seen++
	if rate == 0 || s.seen%rate != 0 || *count == 0 {
		return nil, 0, false
	}
	if *count > 0 {
		*count--
		if frequency == 0 {
			frequency = math.MaxInt64 // what is counted goes into a file of its own
		}
	}
	return levels, frequency, true
}

func either(own, otherwise *int64) *int64 {
	if own != nil {
		return own
	}
	return otherwise
}

// Settings returns what holds for a model, or for the server when it names none.
func (t *Tracer) Settings(model string) edgewise.TraceSettings {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settings(model)
}

func (t *Tracer) settings(model string) edgewise.TraceSettings {
	s := t.models[model]
	if s == nil {
		s = &t.server
	}
	out := edgewise.TraceSettings{
		Levels: s.levels, Rate: *either(s.rate, t.server.rate), Count: *either(s.count, t.server.count),
		LogFrequency: *either(s.frequency, t.server.frequency),
		File:         t.config.Settings.File, Mode: t.config.Settings.Mode, Options: t.config.Export.options(),
	}
	if out.Levels == nil {
		out.Levels = t.server.levels
	}
	return out
}

// maxTracedModels bounds the models that have trace settings of their own.
const maxTracedModels = 10_000

// Change changes the settings of a model, or of the server. Errors: Exhausted (too many models with settings).
func (t *Tracer) Change(model string, change edgewise.TraceChange) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, otherwise := &t.server, fresh(t.config.Settings)
	if model != "" {
		otherwise = sampler{}
		if s = t.models[model]; s == nil {
			if len(t.models) >= maxTracedModels {
				return edgewise.Errorf("observe.Change", edgewise.Exhausted, "%d models have trace settings of their own: no "+
					"more can", maxTracedModels)
			}
			s = &sampler{}
			t.models[model] = s
		}
	}
	s.change(change, otherwise)
	if model != "" && s.levels == nil && s.rate == nil && s.count == nil && s.frequency == nil {
		delete(t.models, model)
	}
	t.setOn()
	if t.file != nil {
		t.file.next()
	}
	return nil
}

func (s *sampler) change(change edgewise.TraceChange, otherwise sampler) {
	for _, name := range change.Clear {
		switch name {
		case settingLevel:
			s.levels = otherwise.levels
		case settingRate:
			s.rate = otherwise.rate
		case settingCount:
			s.count = otherwise.count
		case settingFrequency:
			s.frequency = otherwise.frequency
		}
	}
	if change.Levels != nil {
		s.levels = change.Levels
	}
	for _, n := range []struct{ from, to **int64 }{
		{&change.Rate, &s.rate},
		{&change.Count, &s.count},
		{&change.LogFrequency, &s.frequency},
	} {
		if *n.from != nil {
			value := **n.from
			*n.to = &value
		}
	}
	s.seen = 0
}

// Close hands on what has not been yet, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t.spans != nil {
		return t.spans.provider.Shutdown(ctx)
	}
	return nil
}

// ns is a time on the machine's monotonic clock.
func (t *Tracer) ns(at time.Time) int64 { return t.clock + int64(at.Sub(t.epoch)) }
