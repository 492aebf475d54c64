package wasm

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// level is the first argument of the import log.
type level uint32

const (
	levelDebug level = iota
	levelInfo
	levelWarn
	levelError
)

// slogLevel translates a level. A level that the ABI does not define is an error.
func (l level) slogLevel() slog.Level {
	switch l {
	case levelDebug:
		return slog.LevelDebug
	case levelInfo:
		return slog.LevelInfo
	case levelWarn:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// log writes a line of the step into the box's log: cut, without what is not text, and not too many.
func (p *program) log(l level, text string) {
	if !p.logger.Enabled(context.Background(), l.slogLevel()) {
		return
	}
	ok, lost := p.lines.allow(time.Now())
	if lost > 0 {
		p.logger.Warn("the step logged too much", "lost", lost, "allowed", MaxLogLines)
	}
	if ok {
		p.logger.Log(context.Background(), l.slogLevel(), "step", "text", clean(text, MaxLogBytes))
	}
}

// clean cuts a guest's text and makes it valid UTF-8.
func clean(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// lines limits how much a version logs.
type lines struct {
	mu     sync.Mutex // guards what follows
	second int64
	count  int
	lost   int
}

// allow tells whether a line may be logged now, and how many were not since the last one that was.
func (l *lines) allow(now time.Time) (ok bool, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := now.Unix(); s != l.second {
		l.second, l.count = s, 0
	}
	if l.count++; l.count > MaxLogLines {
		l.lost++
		return false, 0
	}
	lost, l.lost = l.lost, 0
	return true, lost
}
