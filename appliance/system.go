package appliance

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
	"github.com/edgewise-ai/edgewise/appliance/updates"
)

// system is what the REST frontend sees of the system below the appliance: its updates, and its safe starts.
type system struct {
	*updates.Updates
	app  *App
	left chan struct{} // closed when a safe start is left
}

var _ administration.System = (*system)(nil)

// newUpdates returns the updates of a program that was installed in a known way.
func (a *App) newUpdates(p update.Packaging, h helper.Client, boot string) *updates.Updates {
	return updates.New(updates.Config{
		Packaging: p, Helper: h, Boot: boot, Dir: a.config.DataDir, Version: Version,
		Room: a.store.Room, Publish: a.publish, Logger: a.logger.With("part", "update"),
	})
}

// packaging returns how this program was installed. A program that does not find itself is one in a folder.
func packaging() update.Packaging {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return update.Packaging{Kind: update.Folder}
	}
	return update.Identify(program, "/etc/os-release")
}

// Receive stores an update and begins to install it.
func (s *system) Receive(ctx context.Context, p *edgewise.Principal, n administration.NewUpdate) (admin.SystemUpdate, error) {
	return s.Updates.Receive(ctx, p, updates.Upload(n))
}

// LeaveSafeStart begins to load the models that ought to be served. Errors: Conflict.
func (s *system) LeaveSafeStart() error {
	a := s.app
	if !a.safe.Leave() {
		return edgewise.Errorf("appliance.LeaveSafeStart", edgewise.Conflict,
			"this is no safe start: all models that are wanted are loaded already, or have failed")
	}
	a.logger.Info("the safe start is over: models are loaded again")
	a.registry.Start()
	close(s.left)
	a.publish("settings", a.box.Settings())
	return nil
}

// followRepositories watches the repositories until ctx ends, and notes when the start has gone well. After a safe
// start, it first waits until that is left.
func (a *App) followRepositories(ctx context.Context, safe bool) {
	if safe {
		select {
		case <-ctx.Done():
			return
		case <-a.system.left:
		}
		if err := a.repositories.Start(ctx); err != nil && ctx.Err() == nil {
			a.logger.Error("loading from repositories", "error", err)
		}
		a.settle(ctx)
	}
	var work sync.WaitGroup
	work.Go(func() { a.safe.AwaitSteady(ctx) })
	a.repositories.Watch(ctx)
	work.Wait()
}
