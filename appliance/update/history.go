package update

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// History is what a box of slots remembers of its updates. It is kept with the data, so that both slots see it.
type History struct {
	Ran      *Ran     `json:"ran,omitempty"`      // the slot that passed its check last
	Pending  *Pending `json:"pending,omitempty"`  // what the next start is to bring
	Last     *Result  `json:"last,omitempty"`     // how the last update or rollback ended
	Fallback *Failed  `json:"fallback,omitempty"` // a start that failed and that nobody has acknowledged
	Refused  []string `json:"refused,omitempty"`  // versions that did not start, latest last
}

// maxRefused bounds the versions that are remembered because they did not start.
const maxRefused = 16

// Ran is a start that went well.
type Ran struct {
	Slot    string `json:"slot"`
	Version string `json:"version"`
	Boot    string `json:"boot"` // the kernel's id of that start
}

// Pending is an update or rollback that was made and not started yet.
type Pending struct {
	Slot    string    `json:"slot"`
	Version string    `json:"version"`
	From    string    `json:"from"`
	Action  string    `json:"action"`
	Boot    string    `json:"boot"` // during which it was made
	Time    time.Time `json:"time"`
	Written bool      `json:"written"` // all of it: the next start takes it
}

// What a Pending and a Result are of.
const (
	ActionUpdate   = "update"
	ActionRollback = "rollback"
)

// Result is how an update or a rollback ended.
type Result struct {
	Action  string    `json:"action"`
	Version string    `json:"version"`
	From    string    `json:"from"`
	Time    time.Time `json:"time"`
	Error   string    `json:"error,omitempty"` // empty: it went well
}

// Failed is a start that did not come up.
type Failed struct {
	Slot    string    `json:"slot"`
	Version string    `json:"version"`
	Runs    string    `json:"runs"`  // the slot that was taken instead
	Since   string    `json:"since"` // id of the start behind which the failed ones are
	Time    time.Time `json:"time"`  // when it was found out
}

// Seen is the machine as it is now.
type Seen struct {
	Slot    string // that runs
	Version string // of it
	Good    bool   // it has passed its check
	Next    string // slot that the next start takes
	Boot    string
	Time    time.Time
}

// Look compares what was to happen with what runs. fell is true when a start has failed that was not known of: the slot that
// did not come up is then to be marked bad, and the one that runs to be kept. It does not change h.
func (h History) Look(now Seen) (next History, fell bool) {
	next = h
	next.Refused = slices.Clone(h.Refused)
	if p := h.Pending; p != nil && p.Boot == now.Boot && !p.Written && p.Slot == now.Next {
		written := *p
		written.Written = true
		next.Pending = &written
	}
	if p := h.Pending; p != nil && p.Boot != now.Boot {
		if p.Slot != now.Slot && !p.Written {
			next.Last = &Result{p.Action, p.Version, p.From, now.Time, "the installation of version " + p.Version + " was cut off by a restart"}
			next.Pending = nil
			return next, false
		}
		if p.Slot != now.Slot {
			next.fail(p.Slot, p.Version, p.Boot, now)
			next.Last = &Result{p.Action, p.Version, p.From, now.Time, "version " + p.Version + " did not pass its check, or was not started"}
			next.Pending = nil
			return next, true
		}
		if now.Good {
			next.Last = &Result{p.Action, p.Version, p.From, now.Time, ""}
			next.Pending, next.Fallback = nil, nil
			next.Refused = slices.DeleteFunc(next.Refused, func(v string) bool { return v == p.Version })
		}
	}
	if r := h.Ran; r != nil && h.Pending == nil && r.Slot != now.Slot && r.Boot != now.Boot && now.Slot != "" {
		next.fail(r.Slot, r.Version, r.Boot, now)
		fell = true
	}
	if now.Good || fell {
		next.Ran = &Ran{now.Slot, now.Version, now.Boot}
	}
	return next, fell
}

// fail notes a start that did not come up.
func (h *History) fail(slot, version, since string, now Seen) {
	h.Fallback = &Failed{slot, version, now.Slot, since, now.Time}
	h.Refused = append(slices.DeleteFunc(h.Refused, func(v string) bool { return v == version || v == "" }), version)
	h.Refused = h.Refused[max(0, len(h.Refused)-maxRefused):]
}

// Equal tells whether two histories say the same.
func (h History) Equal(o History) bool {
	a, errA := json.Marshal(h)
	b, errB := json.Marshal(o)
	return errA == nil && errB == nil && string(a) == string(b)
}

// ReadHistory reads what a box remembers; a file that is not there is an empty history. Errors: Corrupt, Internal.
func ReadHistory(path string) (History, error) {
	const op = "update.ReadHistory"
	var h History
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return h, nil
	}
	if err != nil {
		return h, edgewise.Errorf(op, edgewise.Internal, "%w", err)
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return History{}, edgewise.Errorf(op, edgewise.Corrupt, "%s: %w", path, err)
	}
	return h, nil
}

// Write puts a history in the place of the one on disk. Error: Internal.
func (h History) Write(path string) error {
	text, err := json.MarshalIndent(h, "", " ")
	if err == nil {
		err = WriteFile(path, text, 0o640)
	}
	if err != nil {
		return edgewise.Errorf("update.History.Write", edgewise.Internal, "%w", err)
	}
	return nil
}

// WriteFile puts a file in the place of another: whoever reads it, also after a loss of power, reads the old or the new one.
func WriteFile(path string, text []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.Sync()
}

// BootID is the kernel's name of this start of the machine; empty where it has none.
func BootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
