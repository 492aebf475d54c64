package update

import (
	"encoding/json"
	"os"
	"path/filepath"
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
