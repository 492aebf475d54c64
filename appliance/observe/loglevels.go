package observe

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// LogLevels says which records are logged, and can be changed while the box runs. It is safe for concurrent use.
type LogLevels struct{ state atomic.Uint64 }

// The bits of state: the verbosity is above them.
const (
	logInfo = 1 << iota
	logWarning
	logError
	verbosity
)

// NewLogLevels returns levels that log records of least and above; below slog.LevelInfo the verbosity is 1.
func NewLogLevels(least slog.Level) *LogLevels {
	l := &LogLevels{}
	verbose := uint32(0)
	if least < slog.LevelInfo {
		verbose = 1
	}
	l.SetLevels(least <= slog.LevelInfo, least <= slog.LevelWarn, least <= slog.LevelError, verbose)
	return l
}

// Levels tells what is logged: records of level info, of level warning and of level error, and details, below info,
// when verbose is not 0.
func (l *LogLevels) Levels() (info, warning, err bool, verbose uint32) {
	s := l.state.Load()
	return s&logInfo != 0, s&logWarning != 0, s&logError != 0, uint32(s / verbosity)
}

// SetLevels changes what is logged.
func (l *LogLevels) SetLevels(info, warning, err bool, verbose uint32) {
	s := uint64(verbose) * verbosity
	for _, level := range [...]struct {
		on  bool
		bit uint64
	}{{info, logInfo}, {warning, logWarning}, {err, logError}} {
		if level.on {
			s |= level.bit
		}
	}
	l.state.Store(s)
}

// Logger returns a logger that hands to handler what is to be logged, whatever handler itself thinks of its level.
func (l *LogLevels) Logger(handler slog.Handler) *slog.Logger {
	return slog.New(&leveled{Handler: handler, levels: l})
}

func (l *LogLevels) enabled(level slog.Level) bool {
	s := l.state.Load()
	switch {
	case level < slog.LevelInfo:
		return s >= verbosity
	case level < slog.LevelWarn:
		return s&logInfo != 0
	case level < slog.LevelError:
		return s&logWarning != 0
	}
	return s&logError != 0
}

// leveled is a handler behind LogLevels.
type leveled struct {
	slog.Handler
	levels *LogLevels
}

// Enabled tells whether records of a level are logged now.
func (h *leveled) Enabled(_ context.Context, level slog.Level) bool { return h.levels.enabled(level) }

// WithAttrs returns a handler that adds attributes.
func (h *leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &leveled{h.Handler.WithAttrs(attrs), h.levels}
}

// WithGroup returns a handler that puts attributes into a group.
func (h *leveled) WithGroup(name string) slog.Handler {
	return &leveled{h.Handler.WithGroup(name), h.levels}
}
