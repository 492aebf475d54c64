package activity

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// Bounds of the kept log.
const (
	MaxLines     = 10_000
	maxLineField = 2_000 // bytes of a message or of a value
	maxFields    = 32
)

// Logs keeps the latest lines of a log. It is safe for concurrent use.
type Logs struct {
	publish func(topic string, data any)

	mu     sync.Mutex // guards the fields below
	lines  []admin.LogLine
	next   int // where the next line goes, once there are MaxLines
	number uint64
}

// NewLogs returns an empty log, which publishes each line.
func NewLogs(publish func(topic string, data any)) *Logs { return &Logs{publish: publish} }

// Handler returns a handler that keeps lines and passes them to another one.
func (l *Logs) Handler(next slog.Handler) slog.Handler { return &handler{logs: l, next: next} }

type handler struct {
	logs   *Logs
	next   slog.Handler
	prefix string // of keys
	fields []admin.LogField
}

// Enabled tells whether the next handler is enabled.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle keeps a line and passes it on.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	fields := slices.Clone(h.fields)
	r.Attrs(func(a slog.Attr) bool {
		fields = appendField(fields, h.prefix, a)
		return true
	})
	h.logs.add(admin.LogLine{Time: r.Time.UTC(), Level: levelName(r.Level), Message: clip(r.Message), Fields: fields})
	return h.next.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attrs to each line.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *h
	more.next, more.fields = h.next.WithAttrs(attrs), slices.Clone(h.fields)
	for _, a := range attrs {
		more.fields = appendField(more.fields, h.prefix, a)
	}
	return &more
}

// WithGroup returns a handler that puts a name before the keys that follow.
func (h *handler) WithGroup(name string) slog.Handler {
	more := *h
	more.next, more.prefix = h.next.WithGroup(name), h.prefix+name+"."
	return &more
}

func appendField(fields []admin.LogField, prefix string, a slog.Attr) []admin.LogField {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, inner := range v.Group() {
			fields = appendField(fields, prefix+a.Key+".", inner)
		}
		return fields
	}
	if len(fields) >= maxFields {
		return fields
	}
	return append(fields, admin.LogField{Key: prefix + a.Key, Value: clip(fmt.Sprint(v.Any()))})
}

func clip(text string) string {
	if len(text) > maxLineField {
		text = text[:maxLineField]
	}
	return strings.ToValidUTF8(text, "?")
}

func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	}
	return "error"
}

func (l *Logs) add(line admin.LogLine) {
	if line.Fields == nil {
		line.Fields = []admin.LogField{}
	}
	l.mu.Lock()
	l.number++
	line.Number = l.number
	if len(l.lines) < MaxLines {
		l.lines = append(l.lines, line)
	} else {
		l.lines[l.next] = line
		l.next = (l.next + 1) % MaxLines
	}
	l.mu.Unlock()
	l.publish("log", line)
}

// LogQuery selects lines.
type LogQuery struct {
	Level  string // the least severe; empty: all
	Text   string // a part of the line, without regard to case; empty: all
	Before uint64 // only lines with a smaller number; 0: all
	Limit  int
}

// List reads the log, latest first.
func (l *Logs) List(q LogQuery) admin.LogPage {
	page := admin.LogPage{Lines: []admin.LogLine{}}
	levels := []string{"debug", "info", "warn", "error"}
	least, text := slices.Index(levels, q.Level), strings.ToLower(q.Text)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lines {
		line := &l.lines[(l.next+len(l.lines)-1-i)%len(l.lines)]
		if q.Before > 0 && line.Number >= q.Before || slices.Index(levels, line.Level) < least || text != "" &&
			!holds(line, text) {
			continue
		}
		if len(page.Lines) == q.Limit {
			page.Next = page.Lines[q.Limit-1].Number
			break
		}
		page.Lines = append(page.Lines, *line)
	}
	return page
}

func holds(line *admin.LogLine, text string) bool {
	if strings.Contains(strings.ToLower(line.Message), text) {
		return true
	}
	return slices.ContainsFunc(line.Fields, func(f admin.LogField) bool {
		return strings.Contains(strings.ToLower(f.Key+"="+f.Value), text)
	})
}
