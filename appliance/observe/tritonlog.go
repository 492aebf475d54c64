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
