package observe

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TritonHandler writes log lines as Triton does:
//
//	I0520 20:03:25.829575 3355 file.go:441] "message key=value"
//
// The text is a JSON string, so that nothing a client sent can begin a line of its own, unless escaping is turned off. Safe
// for concurrent use.
type TritonHandler struct {
	out    *tritonOut
	prefix string // of the names of attributes
	attrs  string
}

type tritonOut struct {
	mu      sync.Mutex // held while a line is written
	w       io.Writer
	raw     bool // texts and attributes are written as they are
	iso8601 atomic.Bool
}

// NewTritonHandler writes to w; iso8601 chooses the form of the time. Without escape a text may hold line breaks, and with
// them what looks like further lines.
func NewTritonHandler(w io.Writer, iso8601, escape bool) *TritonHandler {
	h := &TritonHandler{out: &tritonOut{w: w, raw: !escape}}
	h.out.iso8601.Store(iso8601)
	return h
}

// SetISO8601 chooses the form of the time in later lines.
func (h *TritonHandler) SetISO8601(on bool) { h.out.iso8601.Store(on) }

// ISO8601 tells which form of the time is in force.
func (h *TritonHandler) ISO8601() bool { return h.out.iso8601.Load() }

// Enabled takes every level: LogLevels decides.
func (*TritonHandler) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs returns a handler that writes attrs in every line.
func (h *TritonHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		h.out.writeAttr(&b, h.prefix, a)
	}
	return &TritonHandler{h.out, h.prefix, h.attrs + b.String()}
}

// WithGroup returns a handler that puts name before the names of later attributes.
func (h *TritonHandler) WithGroup(name string) slog.Handler {
	return &TritonHandler{h.out, h.prefix + name + ".", h.attrs}
}

// Handle writes one line.
func (h *TritonHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		h.out.writeAttr(&b, h.prefix, a)
		return true
	})
	text := []byte(b.String())
	if !h.out.raw {
		var err error
		if text, err = json.Marshal(b.String()); err != nil {
			return err
		}
	}
	line := append(h.head(r), text...)
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := h.out.w.Write(append(line, '\n'))
	return err
}

// head is what stands before the text: severity, time, process, place.
func (h *TritonHandler) head(r slog.Record) []byte {
	var line []byte
	letter := severity(r.Level)
	if h.out.iso8601.Load() {
		line = r.Time.UTC().AppendFormat(line, time.RFC3339)
		line = append(line, ' ', letter)
	} else {
		line = append(line, letter)
		line = r.Time.UTC().AppendFormat(line, "0102 15:04:05.000000")
	}
	frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
	line = append(line, ' ')
	line = strconv.AppendInt(line, int64(os.Getpid()), 10)
	line = append(line, ' ')
	line = append(line, filepath.Base(frame.File)...)
	line = append(line, ':')
	line = strconv.AppendInt(line, int64(frame.Line), 10)
	return append(line, "] "...)
}

func severity(level slog.Level) byte {
	switch {
	case level < slog.LevelWarn:
		return 'I'
	case level < slog.LevelError:
		return 'W'
	}
	return 'E'
}

func (o *tritonOut) writeAttr(b *strings.Builder, prefix string, a slog.Attr) {
	a.Value = a.Value.Resolve()
	if a.Value.Kind() == slog.KindGroup {
		for _, inner := range a.Value.Group() {
			o.writeAttr(b, prefix+a.Key+".", inner)
		}
		return
	}
	text := a.Value.String()
	b.WriteString(" " + prefix + a.Key + "=")
	if !o.raw && (text == "" || strings.ContainsAny(text, " \"=\n\r\t")) {
		text = strconv.Quote(text)
	}
	b.WriteString(text)
}

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
