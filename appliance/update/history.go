package update

import (
	"encoding/json"
	"errors"
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

	Activated map[string]uint32 `json:"activated,omitempty"` // how often RAUC had made each slot the next one; nil: not known
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

// WriteFile puts a file in the place of another: whoever reads it, also after a loss of power, reads the old or the new
// one.
func WriteFile(path string, text []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
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

// Seen is the machine as it is now.
type Seen struct {
	Slot    string // that runs
	Version string // of it
	Good    bool   // it has passed its check
	Next    string // slot that the next start takes
	Boot    string
	Time    time.Time

	Activated uint32 // how often RAUC has made the slot that runs the next one
	Other     SeenSlot
}

// SeenSlot is the slot that does not run.
type SeenSlot struct {
	Name      string
	Version   string // that was installed into it; empty for the one that was flashed
	Good      bool   // it may be started, and has no try that failed
	Activated uint32 // how often RAUC has made it the next one
}

// Look compares what was to happen with what runs. fell is true when a start has failed that was not known of: the slot
// that did not come up is then to be marked bad, and the one that runs to be kept. A slot that RAUC holds for good has
// not failed: it was not started, because somebody has chosen the other one. What was installed past this program, such
// as from a stick, is an update as well. It does not change h.
func (h History) Look(now Seen) (next History, fell bool) {
	next = h
	next.Refused = slices.Clone(h.Refused)
	next.Activated = now.activated()
	if h.Pending == nil {
		fell = next.lookFree(h, now)
	} else {
		fell = next.lookPending(*h.Pending, now)
	}
	if now.Good || fell {
		next.Ran = &Ran{now.Slot, now.Version, now.Boot}
	}
	return next, fell
}

// activated is what RAUC counts, by slot.
func (s Seen) activated() map[string]uint32 {
	return map[string]uint32{s.Slot: s.Activated, s.Other.Name: s.Other.Activated}
}

// lookPending looks at what became of an update or rollback that this program made.
func (h *History) lookPending(p Pending, now Seen) (fell bool) {
	switch {
	case p.Boot == now.Boot:
		if !p.Written && p.Slot == now.Next {
			p.Written = true
			h.Pending = &p
		}
	case p.Slot != now.Slot && !p.Written:
		h.Last = &Result{p.Action, p.Version, p.From, now.Time, "the installation of version " + p.Version +
			" was cut off by a restart"}
		h.Pending = nil
	case p.Slot != now.Slot && now.Other.Good: // not started yet: it still is to come
	case p.Slot != now.Slot:
		h.fail(p.Slot, p.Version, p.Boot, now)
		h.Last = &Result{p.Action, p.Version, p.From, now.Time, "version " + p.Version + " did not pass its check"}
		h.Pending = nil
		return true
	case now.Good:
		h.succeed(Result{p.Action, p.Version, p.From, now.Time, ""})
	}
	return false
}

// lookFree looks at what happened without this program: an update from a stick, or a slot that does not start any more.
// was is what was known before.
func (h *History) lookFree(was History, now Seen) (fell bool) {
	switch {
	case was.Ran == nil || now.Slot == "":
		return false
	case was.Ran.Slot != now.Slot:
		return h.lookMoved(was, now)
	case was.Activated == nil || now.Other.Activated == was.Activated[now.Other.Name]:
		return false
	}
	ran := *was.Ran
	switch {
	case now.Other.Good && now.Next == now.Other.Name:
		h.Pending = &Pending{now.Other.Name, now.Other.Version, now.Version, ActionUpdate, now.Boot, now.Time, true}
	case !now.Other.Good && ran.Boot != now.Boot: // it was tried before this start
		h.fail(now.Other.Name, now.Other.Version, ran.Boot, now)
		h.Last = &Result{ActionUpdate, now.Other.Version, now.Version, now.Time, "version " + now.Other.Version +
			" did not pass its check"}
		return true
	}
	return false
}

// lookMoved looks at a start of the slot that did not run before.
func (h *History) lookMoved(was History, now Seen) (fell bool) {
	ran := *was.Ran
	switch {
	case !now.Other.Good && ran.Boot != now.Boot:
		h.fail(ran.Slot, ran.Version, ran.Boot, now)
		return true
	case !now.Good:
		h.Activated = was.Activated // it has not passed its check: what it is is said then
	case was.Activated != nil && now.Activated != was.Activated[now.Slot]:
		h.succeed(Result{ActionUpdate, now.Version, ran.Version, now.Time, ""})
	}
	return false
}

// succeed notes an update or rollback that runs and has passed its check.
func (h *History) succeed(r Result) {
	h.Last, h.Pending, h.Fallback = &r, nil, nil
	h.Refused = slices.DeleteFunc(h.Refused, func(v string) bool { return v == r.Version })
}

// fail notes a start that did not come up.
func (h *History) fail(slot, version, since string, now Seen) {
	h.Fallback = &Failed{slot, version, now.Slot, since, now.Time}
	h.Refused = append(slices.DeleteFunc(h.Refused, func(v string) bool { return v == version || v == "" }), version)
	h.Refused = h.Refused[max(0, len(h.Refused)-maxRefused):]
}
