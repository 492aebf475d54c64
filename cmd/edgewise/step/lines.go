package step

import (
	"context"
	"log/slog"
	"sync"
)

// maxLines bounds what is kept of a step's log.
const maxLines = 1000

// lines keeps the log of a step. It is the handler of the logger that the step writes to.
type lines struct {
	mu   sync.Mutex // guards kept
	kept []string
}

// take returns the lines since the last call.
func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.kept
	l.kept = nil
	return kept
}

// Enabled keeps all levels.
func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps a line: the level, and the text that the step wrote.
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "text" {
			text = a.Value.String()
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) < maxLines {
		l.kept = append(l.kept, r.Level.String()+" "+text)
	}
	return nil
}

// WithAttrs and WithGroup change nothing: only the step's own words are kept.
func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup returns l.
func (l *lines) WithGroup(string) slog.Handler { return l }
