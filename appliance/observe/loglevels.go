package observe

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// LogLevels says which records are logged, and can be changed while the process runs. It is safe for concurrent use.
type LogLevels struct{ state atomic.Pointer[logState] }

type logState struct {
	info, warning, err bool
	verbose            uint32
}

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

// Levels tells which records are logged: of level info, of level warning, of level error, and below info when verbose
// is not 0.
func (l *LogLevels) Levels() (info, warning, err bool, verbose uint32) {
	s := l.state.Load()
	return s.info, s.warning, s.err, s.verbose
}

// SetLevels changes which records are logged.
func (l *LogLevels) SetLevels(info, warning, err bool, verbose uint32) {
	l.state.Store(&logState{info, warning, err, verbose})
}

// Logger returns a logger that passes records of these levels to handler, whether handler is enabled for them or not.
func (l *LogLevels) Logger(handler slog.Handler) *slog.Logger {
	return slog.New(&leveled{Handler: handler, levels: l})
}

func (l *LogLevels) enabled(level slog.Level) bool {
	s := l.state.Load()
	switch {
	case level < slog.LevelInfo:
		return s.verbose > 0
	case level < slog.LevelWarn:
		return s.info
	case level < slog.LevelError:
		return s.warning
	}
	return s.err
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
