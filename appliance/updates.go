package appliance

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
)

// The files of updates in the data folder. Both slots of an image see them.
const (
	updateFolder   = "update"
	updateHistory  = "history.json"
	updateIncoming = "incoming"
	updateLog      = "failed.log"
)

const (
	// lookAtSystem is how often RAUC or the helper is asked how the system is.
	lookAtSystem = 30 * time.Second
	// askSystem bounds how long that may take.
	askSystem = 20 * time.Second
	// readFailed bounds how long reading the log of failed starts may take: the machine has just been started, and is busy.
	readFailed = time.Minute
)

// updates change the system that the box runs on.
type updates struct {
	app    *App
	how    update.Packaging
	helper helper.Client
	logger *slog.Logger
	boot   string // this start of the machine
	work   sync.WaitGroup
	base   context.Context // of what goes on behind a request; ends with stop
	stop   context.CancelFunc
	turn   chan struct{} // holds one token: one update at a time
	looks  sync.Mutex    // held by who looks: one after the other

	mu      sync.Mutex // guards what follows
	history update.History
	status  update.Status // RAUC's
	kept    helper.State  // the helper's
	problem error         // why neither is known
	job     *admin.UpdateJob
	cancel  context.CancelFunc // of the job
	log     int                // bytes of the log of a failed start
	untold  bool               // a failed start was found, and its log is being read: nobody is told before it is there
}

var _ httpapi.System = (*updates)(nil)

func newUpdates(a *App) *updates {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	u := &updates{app: a, logger: a.logger.With("part", "update"), boot: update.BootID(), turn: make(chan struct{}, 1), how: update.Packaging{Kind: update.Folder}}
	if err == nil {
		u.how = update.Identify(program, "/etc/os-release")
	}
	u.base, u.stop = context.WithCancel(context.Background())
	u.turn <- struct{}{}
	return u
}

func (u *updates) path(name string) string {
	return filepath.Join(u.app.config.DataDir, updateFolder, name)
}

// run looks at the system until ctx ends. What RAUC or the helper is doing then goes on without this program, which the
// helper may be about to replace.
func (u *updates) run(ctx context.Context) {
	defer u.work.Wait()
	defer u.stop()
	if u.how.Kind != update.Image && u.how.Kind != update.Package {
		<-ctx.Done()
		return
	}
	if err := u.begin(); err != nil {
		u.logger.Error("reading what is known of updates", "error", err)
	}
	ticker := time.NewTicker(lookAtSystem)
	defer ticker.Stop()
	for {
		u.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// begin reads what earlier starts have left.
func (u *updates) begin() error {
	if err := os.MkdirAll(u.path(""), 0o750); err != nil {
		return edgewise.Errorf("appliance.updates", edgewise.Internal, "%w", err)
	}
	if err := os.Remove(u.path(updateIncoming)); err != nil && !os.IsNotExist(err) {
		u.logger.Warn("removing an update that was not finished", "error", err)
	}
	h, err := update.ReadHistory(u.path(updateHistory))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.history = h
	if info, err := os.Stat(u.path(updateLog)); err == nil {
		u.log = int(info.Size())
	}
	return err
}

// look asks how the system is, and finds out whether a start has failed.
func (u *updates) look(ctx context.Context) {
	u.looks.Lock()
	defer u.looks.Unlock()
	asking, cancel := context.WithTimeout(ctx, askSystem)
	defer cancel()
	var status update.Status
	var kept helper.State
	var err error
	if u.how.Kind == update.Image {
		status, err = u.askRAUC(asking)
	} else {
		var a helper.Answer
		if a, err = u.helper.Ask(asking, helper.Request{Do: helper.DoState}, nil, nil); a.State != nil {
			kept = *a.State
		}
	}
	u.mu.Lock()
	changed := (err == nil) != (u.problem == nil)
	u.status, u.kept, u.problem = status, kept, err
	u.mu.Unlock()
	if err != nil {
		if changed {
			u.logger.Warn("updates are not possible", "reason", err)
		}
		return
	}
	if u.how.Kind == update.Image {
		u.compare(ctx, status)
	}
}

// askRAUC asks RAUC for its state.
func (u *updates) askRAUC(ctx context.Context) (update.Status, error) {
	rauc, err := update.Open(ctx)
	if err != nil {
		return update.Status{}, err
	}
	defer func() { _ = rauc.Close() }()
	return rauc.Status(ctx)
}

// compare finds out from RAUC's state how an update went that was made before this start.
func (u *updates) compare(ctx context.Context, s update.Status) {
	seen := update.Seen{Slot: s.Booted, Version: u.how.Version, Next: s.Primary, Boot: u.boot, Time: time.Now().UTC()}
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
	u.history, u.untold = next, fell
	u.mu.Unlock()
	if next.Equal(was) {
		return
	}
	if fell {
		u.fellBack(ctx, next.Fallback)
	}
	u.mu.Lock()
	next, u.untold = u.history, false // an installation may have begun meanwhile
	u.mu.Unlock()
	if err := next.Write(u.path(updateHistory)); err != nil {
		u.logger.Error("keeping what is known of updates", "error", err)
	}
	u.tell()
}

// fellBack has the slot that runs be the one to be started, and keeps the log of the start that failed.
func (u *updates) fellBack(ctx context.Context, f *update.Failed) {
	u.logger.Error("a start of the system failed: the other slot runs", "failed", f.Slot, "version", f.Version, "runs", f.Runs)
	if err := u.markFailed(ctx); err != nil {
		u.logger.Error("marking the slot that failed", "error", err)
	}
	reading, cancel := context.WithTimeout(ctx, readFailed)
	defer cancel()
	a, err := u.helper.Ask(reading, helper.Request{Do: helper.DoFailures, Since: f.Since}, nil, nil)
	if err != nil {
		u.logger.Error("reading the log of the start that failed", "error", err)
		a.Log = "The log of the start that failed could not be read: " + err.Error() + "\n"
	}
	if err := update.WriteFile(u.path(updateLog), []byte(a.Log), 0o640); err != nil {
		u.logger.Error("keeping the log of the start that failed", "error", err)
		a.Log = ""
	}
	u.mu.Lock()
	u.log = len(a.Log)
	u.mu.Unlock()
}

// markFailed marks the slot that does not run as one that is not started any more.
func (u *updates) markFailed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askSystem)
	defer cancel()
	rauc, err := update.Open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(rauc.Mark(ctx, update.Bad, update.Other), rauc.Close())
}

// tell tells those who listen where an update stands.
func (u *updates) tell() { u.app.publish("update", u.Update()) }
