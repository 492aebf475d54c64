package appliance

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/store"
)

// When a start is a safe one. A model that ends the program is met twice before it is left out. A loss of power is no model's
// doing: it counts only when the same one was being loaded each time, and has to come more often.
const (
	maxCrashes = 2 // starts in a row, in one start of the machine, that did not end well
	maxCuts    = 4 // starts that ended while the same version was being loaded, across starts of the machine

	steadyTime     = 30 * time.Second // that a box must be ready for until its start has gone well
	startsFile     = "starts.json"
	maxSuspects    = 64
	maxStartsBytes = 64 << 10
)

// starts is what the data folder remembers of starts that have not ended well. It is not there when the last one has.
type starts struct {
	Total   int       `json:"total"`
	InBoot  int       `json:"in_boot"` // those of them in this start of the machine
	Boot    string    `json:"boot"`
	Since   time.Time `json:"since"`
	Loading []string  `json:"loading"` // versions that are being loaded, as name:version

	Suspects map[string]int `json:"suspects"` // how many of the starts ended while a version was being loaded
	Safe     bool           `json:"safe"`     // the last of them was a safe start: so is the next, until somebody says otherwise
}

// next is what a start begins with, after the one that left s behind.
func (s starts) next(boot string, now time.Time) (n starts, safe bool) {
	n = s
	if s.Boot != boot {
		n.InBoot, n.Boot = 0, boot
	}
	if s.Total == 0 {
		n.Since = now
	}
	n.Suspects = map[string]int{} // only those of the last start stay
	safe = s.Safe || n.InBoot >= maxCrashes
	for _, name := range s.Loading {
		n.Suspects[name] = s.Suspects[name] + 1
		safe = safe || n.Suspects[name] >= maxCuts
	}
	if safe {
		n.Safe = true
		return n, true
	}
	n.Total, n.InBoot, n.Loading = n.Total+1, n.InBoot+1, nil
	return n, false
}

// safeStart counts the starts that do not end well, and leaves the models out when there were too many. A user's model must
// neither make the box unreachable nor decide whether the system is good.
type safeStart struct {
	path   string
	logger *slog.Logger
	before starts // what the starts before have left behind

	mu     sync.Mutex // guards what follows
	now    starts
	active bool
	over   bool // this start has gone well, or ended in order: nothing is counted any more
}

// openSafeStart begins to count a start.
func openSafeStart(dir string, logger *slog.Logger) *safeStart {
	s := &safeStart{path: filepath.Join(dir, startsFile), logger: logger}
	before, err := readStarts(s.path)
	if err != nil {
		logger.Error("what is known of earlier starts cannot be read and is forgotten", "error", err)
	}
	s.before = before
	s.now, s.active = before.next(update.BootID(), time.Now().UTC())
	if s.active {
		logger.Error("safe start: no models are loaded, since the starts before did not end well", "starts", s.now.Total, "loading", s.now.Loading)
	}
	s.write(true)
	return s
}

func readStarts(path string) (s starts, err error) {
	text, err := store.ReadBounded(path, maxStartsBytes)
	if os.IsNotExist(err) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return starts{}, err
	}
	return s, nil
}

// write keeps what is known; a change that outlives a crash of the program need not outlive a loss of power. s.mu is held, or
// nobody knows s yet.
func (s *safeStart) write(durable bool) {
	text, err := json.Marshal(s.now)
	if err == nil && durable {
		err = update.WriteFile(s.path, text, 0o640)
	} else if err == nil {
		err = os.WriteFile(s.path, text, 0o640)
	}
	if err != nil {
		s.logger.Error("counting starts", "error", err)
	}
}

// Active tells whether models are to be left alone.
func (s *safeStart) Active() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// loading notes that a version is being loaded; done is called when it is, or has failed.
func (s *safeStart) loading(id edgewise.ModelID) (done func()) {
	name := id.Name + ":" + strconv.FormatInt(id.Version, 10)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.now.Loading) >= maxSuspects || s.active {
		return func() {}
	}
	s.now.Loading = append(slices.Clone(s.now.Loading), name)
	s.write(false)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(s.now.Loading, name); i >= 0 && !s.over {
			s.now.Loading = slices.Delete(slices.Clone(s.now.Loading), i, i+1)
			s.write(false)
		}
	}
}

// wentWell forgets the starts that did not. A safe start has not gone well: the next one is safe, too.
func (s *safeStart) wentWell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active || s.over {
		return
	}
	s.over, s.now = true, starts{}
	if err := os.Remove(s.path); err != nil && !os.IsNotExist(err) {
		s.logger.Error("counting starts", "error", err)
	}
}

// undo takes back what this start has noted. It is for one that ends with an error before any model is loaded, such as a port that
// is taken: it says nothing of the models, and must not lead to a start without them.
func (s *safeStart) undo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.now = true, s.before
	if s.before.Total > 0 {
		s.write(true)
		return
	}
	if err := os.Remove(s.path); err != nil && !os.IsNotExist(err) {
		s.logger.Error("counting starts", "error", err)
	}
}

// settled waits until a box that is ready has been so for a while.
func (s *safeStart) settled(ctx context.Context) {
	timer := time.NewTimer(steadyTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		s.wentWell()
	}
}

// leave ends a safe start: models are loaded again, and counted as in a start. It tells whether there was one.
func (s *safeStart) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.active {
		return false
	}
	s.active = false
	s.now = starts{Total: s.now.Total + 1, InBoot: maxCrashes, Boot: update.BootID(), Since: s.now.Since, Suspects: s.now.Suspects} // one crash more, and it is back
	s.write(true)
	return true
}

// show describes a safe start, nil when there is none.
func (s *safeStart) show() *admin.SafeStart {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.active {
		return nil
	}
	text := fmt.Sprintf("The box has started without its models: %d starts in a row did not end well.", s.now.Total)
	if len(s.now.Loading) > 0 {
		text += fmt.Sprintf(" The last one ended while %s was being loaded.", list(s.now.Loading))
	}
	return &admin.SafeStart{Since: s.now.Since, Crashes: s.now.Total, Models: append([]string{}, s.now.Loading...), Text: text}
}

// list names the first few of many things.
func list(names []string) string {
	const most = 3
	text := ""
	for i, name := range names {
		switch {
		case i == most:
			return fmt.Sprintf("%s and %d more", text, len(names)-most)
		case i > 0:
			text += ", "
		}
		text += name
	}
	return text
}

// LeaveSafeStart loads the models again that are wanted. Errors: Conflict.
func (u *updates) LeaveSafeStart() error {
	if !u.app.safe.leave() {
		return edgewise.Errorf("appliance.LeaveSafeStart", edgewise.Conflict, "this is no safe start: all models that are wanted are loaded already, or have failed")
	}
	u.logger.Info("the safe start is over: models are loaded again")
	u.app.library.start()
	u.work.Go(func() {
		if err := u.app.library.sources.start(u.base); err != nil && u.base.Err() == nil {
			u.logger.Error("loading from repositories", "error", err)
		}
		u.app.settle(u.base)
		u.work.Go(func() { u.app.library.sources.watch(u.base) })
		u.app.safe.settled(u.base)
	})
	u.app.publish("settings", u.app.box.Settings())
	return nil
}
