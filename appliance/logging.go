package appliance

import (
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/observe"
)

// newTracer makes the tracer that the configuration asks for.
func newTracer(c config.Trace, logger *slog.Logger) (*observe.Tracer, error) {
	e := observe.Export{URL: c.URL, Resource: map[string]string{}, QueueSize: c.QueueSize, Delay: c.ExportDelay, Batch: c.ExportBatch}
	for _, pair := range c.Resource {
		name, value, _ := strings.Cut(pair, "=")
		e.Resource[name] = value
	}
	return observe.NewTracer(observe.TraceConfig{
		Settings: edgewise.TraceSettings{
			Levels: c.Levels, Rate: int64(c.Rate), Count: int64(c.Count), LogFrequency: int64(c.LogFrequency), File: c.File, Mode: c.Mode,
		},
		Export: e, Logger: logger,
	})
}

// newLatencies measures what the configuration asks for.
func newLatencies(c config.Metrics) *observe.Latencies {
	quantiles, _ := config.ParseQuantiles(c.SummaryQuantiles) // validated with the configuration
	return observe.NewLatencies(observe.LatencyConfig{
		FirstResponse: c.HistogramLatencies, Summaries: c.SummaryLatencies, Quantiles: quantiles,
	})
}

// logging is what is logged, and how, as clients see and change it.
type logging struct {
	levels  *observe.LogLevels
	handler *observe.TritonHandler // nil: the lines' form is not one of Triton's
	file    string

	mu     sync.Mutex // held while settings change
	format string
}

func newLogging(levels *observe.LogLevels, handler slog.Handler, c config.Log) *logging {
	l := &logging{levels: levels, file: c.File, format: "default"}
	if l.handler, _ = handler.(*observe.TritonHandler); l.handler != nil && l.handler.ISO8601() {
		l.format = formatISO8601
	}
	return l
}

const formatISO8601 = "ISO8601"

// Settings tells what is logged, and how.
func (l *logging) Settings() kserve.LogSettings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settings()
}

func (l *logging) settings() kserve.LogSettings {
	s := kserve.LogSettings{File: l.file, Format: l.format}
	s.Info, s.Warning, s.Error, s.Verbose = l.levels.Levels()
	return s
}

// Change changes that until the box stops, all of it or nothing.
func (l *logging) Change(c kserve.LogChange) (kserve.LogSettings, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, err := c.On(l.settings())
	if err != nil {
		return next, err
	}
	l.levels.SetLevels(next.Info, next.Warning, next.Error, next.Verbose)
	l.format = next.Format
	if l.handler != nil {
		l.handler.SetISO8601(next.Format == formatISO8601)
	}
	return next, nil
}

// LogHandler writes log lines to w in the form that the configuration chooses.
func LogHandler(c config.Log, w io.Writer) slog.Handler {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // validated with the configuration
	options := &slog.HandlerOptions{Level: level}
	switch c.Format {
	case config.LogJSON:
		return slog.NewJSONHandler(w, options)
	case config.LogTriton, config.LogTritonISO8601:
		return observe.NewTritonHandler(w, c.Format == config.LogTritonISO8601, c.Escape)
	}
	return slog.NewTextHandler(w, options)
}

// logLevels are the levels in force at the start.
func logLevels(c config.Log) *observe.LogLevels {
	var least slog.Level
	_ = least.UnmarshalText([]byte(c.Level))
	levels := observe.NewLogLevels(least)
	info, warning, failure, verbose := levels.Levels()
	levels.SetLevels(info && c.Info, warning && c.Warning, failure && c.Error, max(verbose, uint32(c.Verbose)))
	return levels
}
