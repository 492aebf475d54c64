// Package history keeps what was counted of requests for 30 days, in two files of at most a fixed size: each minute of
// the last days, and each hour of the last month.
package history

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise/appliance/activity"
)

// The lengths of slots, and the sizes of the files.
const (
	Minute      = time.Minute
	Hour        = time.Hour
	minuteBytes = 29 << 20
	coarseBytes = 18 << 20
)

// Config is what a History needs.
type Config struct {
	Folder string                   // is made if it is missing
	Take   func() []activity.Sample // returns what was counted since the call before
	Minute func([]activity.Sample)  // is called with each minute's samples; nil: nothing is
	Now    func() time.Time         // the clock of the wall; nil: time.Now
	// Named returns the present name of the model that had a name at a time, in Unix seconds. nil: none was renamed.
	Named  func(model string, at int64) string
	Logger *slog.Logger
}

// History keeps the samples of each minute. Its methods are safe for concurrent use.
type History struct {
	config Config

	mu             sync.Mutex // guards the fields below
	minutes, hours *ring      // nil: not open
	failing        bool       // the last write failed, which the log says
}

// New returns a History that does not keep anything before Run.
func New(c Config) *History {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &History{config: c}
}

// Run keeps each minute until ctx ends, and then the minute that has begun. A folder that cannot be used costs the
// history and nothing else.
func (h *History) Run(ctx context.Context) {
	h.open()
	defer h.close()
	began := time.Now()
	for {
		timer := time.NewTimer(untilMinute(h.config.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			h.keep(time.Since(began))
			return
		case <-timer.C:
		}
		passed := time.Since(began)
		began = began.Add(passed)
		samples := h.keep(passed)
		if h.config.Minute != nil {
			h.config.Minute(samples)
		}
	}
}

// untilMinute returns the time until the next minute begins, or the one behind it when that is less than a second.
func untilMinute(now time.Time) time.Duration {
	wait := now.Truncate(Minute).Add(Minute).Sub(now.Round(0))
	if wait < time.Second {
		wait += Minute
	}
	return wait
}

func (h *History) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := os.MkdirAll(h.config.Folder, 0o700)
	if err == nil {
		h.minutes, err = openRing(filepath.Join(h.config.Folder, "minutes.ring"), minuteBytes)
	}
	if err == nil {
		h.hours, err = openRing(filepath.Join(h.config.Folder, "hours.ring"), coarseBytes)
	}
	if err != nil {
		h.config.Logger.Error("the history is not kept", "error", err)
		return
	}
	h.minutes.number = max(h.minutes.number, h.hours.finished()) // the file of the minutes may be a new one
}

func (h *History) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range []*ring{h.minutes, h.hours} {
		if r != nil {
			_ = r.file.Close()
		}
	}
	h.minutes, h.hours = nil, nil
}

// keep writes what was counted in the time that passed since the call before, in the minute of the middle of that time:
// the clock may have been set meanwhile.
func (h *History) keep(passed time.Duration) []activity.Sample {
	samples := h.config.Take()
	slot := h.config.Now().Round(0).Add(-passed / 2).Truncate(Minute)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.minutes == nil || h.hours == nil {
		return samples
	}
	seconds := uint32(min(passed.Round(time.Second)/time.Second, math.MaxUint32))
	err := errors.Join(h.condense(slot), write(h.minutes, samples, head{start: slot.Unix(), seconds: seconds}))
	if err != nil && !h.failing {
		h.config.Logger.Error("the history is not kept", "error", err)
	}
	h.failing = err != nil
	return samples
}

// write adds samples to a ring: in several frames when they are too many for one. The first has the seconds, and the
// last upTo.
func write(r *ring, samples []activity.Sample, h head) error {
	upTo := h.upTo
	h.upTo = 0
	frame := make([]byte, headBytes, 4096)
	for i := range samples {
		before := len(frame)
		frame = appendRecord(frame, &samples[i])
		if len(frame) <= maxFrame {
			continue
		}
		next := append(make([]byte, headBytes, maxFrame), frame[before:]...)
		if err := r.add(frame[:before], h); err != nil {
			return err
		}
		frame, h.seconds = next, 0
	}
	h.upTo = upTo
	return r.add(frame, h)
}

// condense writes the hour of the minutes that no coarse frame has yet, once a minute of another hour begins.
// h.mu is held.
func (h *History) condense(next time.Time) error {
	done := h.hours.finished()
	var group []place
	for _, p := range h.minutes.frames {
		if p.number <= done {
			continue
		}
		if len(group) > 0 && hourOf(p.start) != hourOf(group[0].start) {
			if err := h.writeHour(group); err != nil {
				return err
			}
			group = group[:0]
		}
		group = append(group, p)
	}
	if len(group) > 0 && hourOf(next.Unix()) != hourOf(group[0].start) {
		return h.writeHour(group)
	}
	return nil
}

func hourOf(unix int64) int64 {
	const seconds = int64(Hour / time.Second)
	return unix - (unix%seconds+seconds)%seconds
}

// writeHour writes the hour of a group of minutes. h.mu is held.
func (h *History) writeHour(group []place) error {
	all := merger{split: series.whole, found: map[series]*sums{}}
	written := head{start: hourOf(group[0].start), upTo: group[len(group)-1].number}
	for _, p := range group {
		written.seconds += p.seconds
		all.merge(h.minutes, p)
	}
	samples := make([]activity.Sample, 0, len(all.found))
	for key, s := range all.found {
		samples = append(samples, s.sample(key.id, key.caller))
	}
	return write(h.hours, samples, written)
}
