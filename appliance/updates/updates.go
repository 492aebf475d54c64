// Package updates changes the system that the appliance runs on: a flashed one through RAUC, a Debian package through
// the helper (decision 0029).
package updates

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
)

// The files of updates in the data folder, which both slots of an image share.
const (
	// Folder holds them.
	Folder = "update"
	// HistoryFile keeps what is known of earlier updates.
	HistoryFile  = "history.json"
	incomingFile = "incoming"
	logFile      = "failed.log"
)

const (
	// refreshInterval is how often RAUC or the helper is asked for the state of the system.
	refreshInterval = 30 * time.Second
	// askTimeout bounds how long that may take.
	askTimeout = 20 * time.Second
	// readLogTimeout bounds reading the log of failed starts: the machine has just started, and is busy.
	readLogTimeout = time.Minute
)

// Config is what Updates works with.
type Config struct {
	Packaging update.Packaging                // how the program was installed
	Helper    helper.Client                   // asked for what needs rights
	Boot      string                          // id of this boot of the machine
	Dir       string                          // data folder
	Version   string                          // of the program; shown where the packaging has none
	Room      func(size int64) error          // nil when so many bytes find room on the disk
	Publish   func(topic string, message any) // tells listeners of a change
	Logger    *slog.Logger
}

// Updates changes the system that the appliance runs on, one update at a time. All methods are safe for concurrent use.
type Updates struct {
	config     Config
	work       sync.WaitGroup
	base       context.Context // of work that outlives its request; ends with stop
	stop       context.CancelFunc
	turn       chan struct{} // holds one token, which an update takes
	refreshing sync.Mutex    // held while the state of the system is asked for

	mu          sync.Mutex // guards what follows
	history     update.History
	status      update.Status // RAUC's
	helperState helper.State
	problem     error // why neither of the two could be read; nil: one was
	job         *admin.UpdateJob
	cancel      context.CancelFunc // of the job
	logBytes    int                // of the log of a failed start
	logPending  bool               // a start has failed whose log is still being read: it is not reported yet
}

// New returns Updates that know nothing of the system before Run.
func New(c Config) *Updates {
	u := &Updates{config: c, turn: make(chan struct{}, 1)}
	u.base, u.stop = context.WithCancel(context.Background())
	u.turn <- struct{}{}
	return u
}

func (u *Updates) path(name string) string {
	return filepath.Join(u.config.Dir, Folder, name)
}

// Run follows the state of the system until ctx ends. What RAUC or the helper does then continues without this program,
// which the helper may be about to replace. It is called once and waits for the work that it leaves.
func (u *Updates) Run(ctx context.Context) {
	defer u.work.Wait()
	defer u.stop()
	if u.config.Packaging.Kind != update.Image && u.config.Packaging.Kind != update.Package {
		<-ctx.Done()
		return
	}
	if err := u.begin(); err != nil {
		u.config.Logger.Error("reading the history of updates", "error", err)
	}
	ticker := time.NewTicker(refreshInterval)
	defer ticker.Stop()
	for {
		u.refresh(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// begin reads what earlier starts have stored, and removes an update that was not received completely.
func (u *Updates) begin() error {
	if err := os.MkdirAll(u.path(""), 0o750); err != nil {
		return edgewise.Errorf("updates.Receive", edgewise.Internal, "%w", err)
	}
	if err := os.Remove(u.path(incomingFile)); err != nil && !os.IsNotExist(err) {
		u.config.Logger.Warn("removing an update that was not finished", "error", err)
	}
	h, err := update.ReadHistory(u.path(HistoryFile))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.history = h
	if info, err := os.Stat(u.path(logFile)); err == nil {
		u.logBytes = int(info.Size())
	}
	return err
}

// refresh asks for the state of the system, and finds out whether a start has failed.
func (u *Updates) refresh(ctx context.Context) {
	u.refreshing.Lock()
	defer u.refreshing.Unlock()
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var status update.Status
	var state helper.State
	var err error
	if u.config.Packaging.Kind == update.Image {
		status, err = u.askRAUC(asking)
	} else {
		var a helper.Answer
		if a, err = u.config.Helper.Ask(asking, helper.Request{Do: helper.DoState}, nil, nil); a.State != nil {
			state = *a.State
		}
	}
	u.mu.Lock()
	changed := (err == nil) != (u.problem == nil)
	u.status, u.helperState, u.problem = status, state, err
	u.mu.Unlock()
	if err != nil {
		if changed {
			u.config.Logger.Warn("updates are not possible", "reason", err)
		}
		return
	}
	if u.config.Packaging.Kind == update.Image {
		u.compare(ctx, status)
	}
}

// askRAUC asks RAUC for its state.
func (u *Updates) askRAUC(ctx context.Context) (update.Status, error) {
	rauc, err := update.Open(ctx)
	if err != nil {
		return update.Status{}, err
	}
	defer func() { _ = rauc.Close() }()
	return rauc.Status(ctx)
}

// compare derives from RAUC's state how an update ended that was installed before this start.
func (u *Updates) compare(ctx context.Context, s update.Status) {
	seen := update.Seen{
		Slot: s.Booted, Version: u.config.Packaging.Version, Next: s.Primary, Boot: u.config.Boot,
		Time: time.Now().UTC(),
	}
	for _, slot := range s.Slots {
		if slot.Name == s.Booted {
			seen.Good, seen.Activated = slot.Good, slot.Activated
		} else {
			seen.Other = update.SeenSlot{Name: slot.Name, Version: slot.Version, Good: slot.Good, Activated: slot.Activated}
		}
	}
	u.mu.Lock()
	was := u.history
	next, fell := was.Look(seen)
	u.history, u.logPending = next, fell
	u.mu.Unlock()
	if next.Equal(was) {
		return
	}
	if fell {
		u.keepFailure(ctx, next.Fallback)
	}
	u.mu.Lock()
	next, u.logPending = u.history, false // an installation may have begun meanwhile
	u.mu.Unlock()
	if err := next.Write(u.path(HistoryFile)); err != nil {
		u.config.Logger.Error("storing the history of updates", "error", err)
	}
	u.publish()
}

// keepFailure marks the slot that failed, and stores the log of that start.
func (u *Updates) keepFailure(ctx context.Context, f *update.Failed) {
	u.config.Logger.Error("a start of the system failed: the other slot runs", "failed", f.Slot, "version", f.Version,
		"runs", f.Runs)
	marking, marked := context.WithTimeout(ctx, askTimeout)
	defer marked()
	if err := mark(marking, update.Bad, update.Other); err != nil { // it is not started any more
		u.config.Logger.Error("marking the slot that failed", "error", err)
	}
	reading, cancel := context.WithTimeout(ctx, readLogTimeout)
	defer cancel()
	a, err := u.config.Helper.Ask(reading, helper.Request{Do: helper.DoFailures, Since: f.Since}, nil, nil)
	if err != nil {
		u.config.Logger.Error("reading the log of the start that failed", "error", err)
		a.Log = "The log of the start that failed could not be read: " + err.Error() + "\n"
	}
	if err := update.WriteFile(u.path(logFile), []byte(a.Log), 0o640); err != nil {
		u.config.Logger.Error("storing the log of the start that failed", "error", err)
		a.Log = ""
	}
	u.mu.Lock()
	u.logBytes = len(a.Log)
	u.mu.Unlock()
}

// mark asks RAUC to mark a slot.
func mark(ctx context.Context, as, slot string) error {
	rauc, err := update.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = rauc.Close() }()
	return rauc.Mark(ctx, as, slot)
}

// publish tells listeners the state of the update.
func (u *Updates) publish() { u.config.Publish("update", u.Update()) }
