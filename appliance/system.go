package appliance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/certificate"
	"github.com/edgewise-ai/edgewise/appliance/drivers"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/update"
	"github.com/edgewise-ai/edgewise/appliance/update/helper"
	"github.com/edgewise-ai/edgewise/appliance/updates"
)

// system is what the REST frontend sees of the system below the appliance: its updates, and its safe starts.
type system struct {
	*updates.Updates
	drivers *drivers.Drivers
	app     *App
	left    chan struct{} // closed when a safe start is left
}

var _ administration.System = (*system)(nil)

// newUpdates returns the updates of a program that was installed in a known way.
func (a *App) newUpdates(p update.Packaging, h helper.Client, boot string) *updates.Updates {
	return updates.New(updates.Config{
		Packaging: p, Helper: h, Boot: boot, Dir: a.config.DataDir, Version: Version,
		Room: a.store.Room, Publish: a.publish, Logger: a.logger.With("part", "update"),
	})
}

// newDrivers returns the drivers for graphics beside a system that was flashed.
func (a *App) newDrivers(p update.Packaging, h helper.Client, next func() string) *drivers.Drivers {
	return drivers.New(drivers.Config{
		Packaging: p, Helper: h, Dir: filepath.Join(a.config.DataDir, updates.Folder), Root: "/", Catalogue: drivers.CatalogueFile,
		Room: a.store.Room, Next: next, Found: a.hardware.List, Logger: a.logger.With("part", "drivers"),
	})
}

// Drivers returns the drivers for graphics beside the system.
func (s *system) Drivers() administration.Drivers { return s.drivers }

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

// follow watches the repositories and the fleet until ctx ends, and notes when the start has gone well. After a safe
// start, it first waits until that is left.
func (a *App) follow(ctx context.Context, safe bool) {
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
	work.Go(func() { a.fleet.Run(ctx) })
	a.repositories.Watch(ctx)
	work.Wait()
}

// When warnings are given.
const (
	lowDisk      = 1 << 30             // bytes free beyond the reserve
	tlsExpires   = 21 * 24 * time.Hour // before an uploaded certificate's end
	earliestYear = 2026                // a clock before it was never set

	deviceLossShown = time.Hour // after a device was lost
)

// warnings lists what a person should do something about: first of the system below the appliance.
func (a *App) warnings(s admin.System) []admin.Warning {
	list := []admin.Warning{}
	add := func(code, severity, text, next string) {
		list = append(list, admin.Warning{Code: code, Severity: severity, Text: text, Next: next})
	}
	if s.FailedBoot != nil {
		add("failed_boot", "error", s.FailedBoot.Text, "Read the log of the failed start under Settings, System.")
	}
	if s.SafeStart != nil {
		add("safe_start", "error", s.SafeStart.Text,
			"Unload the model that causes it, then load the others again, under Settings, System.")
	}
	if s.Update.Restart {
		add("restart", "info", "An update is ready.", "Restart when it suits you, under Settings, System.")
	}
	for _, g := range a.system.drivers.Missing() {
		add("driver_missing", "info", fmt.Sprintf("This box has an %s: %s.", g.Name, g.Text),
			"Until then its models run on the CPU. Install the driver under Settings, System.")
	}
	if a.openMode() {
		add("auth_open", "warning", "Accounts are off: whoever reaches this box may do everything.",
			"Start it without auth: open to log in and give out keys.")
	}
	if a.identity == nil {
		add("tls_off", "warning", "TLS is off: passwords and keys cross the network for all to read.",
			"Set tls.mode to auto and start the box again.")
	} else if d := a.identity.Describe(); d.Mode == certificate.ModeUploaded && time.Until(d.NotAfter) < tlsExpires {
		add("tls_expires", "warning", "The uploaded certificate ends at "+d.NotAfter.Format(time.DateOnly)+".",
			"Upload a new one under Settings, TLS.")
	}
	if s.Disk.Free > 0 && s.Disk.Free-s.Disk.Reserve < lowDisk {
		add("disk_low", "warning", fmt.Sprintf("The disk has %d MiB left, of which %d MiB are kept in reserve.",
			s.Disk.Free>>20, s.Disk.Reserve>>20), "Delete versions that nothing uses, under Models.")
	}
	if s.Time.Year() < earliestYear {
		add("clock", "warning", "The clock says "+s.Time.Format(time.DateOnly)+", which cannot be.",
			"Set the machine's clock: certificates and logs depend on it.")
	}
	for _, d := range a.hardware.List() {
		if ago := time.Since(d.LastLoss); d.Losses > 0 && ago < deviceLossShown {
			add("device_lost", "error", fmt.Sprintf("%s (%s) stopped working %d times, %s ago at last: %s. Its models are started again.",
				d.Name, d.Description, d.Losses, ago.Round(time.Second), d.Loss),
				"When it happens again, read the kernel's log and the device's temperature, or set gpu.mode to off.")
		}
	}
	for _, alert := range a.alerts.Active() {
		list = append(list, admin.Warning{
			Code: "alert", Severity: "warning", Text: alert.Text, Next: "Its rule is under Activity, Alerts.",
		})
	}
	for _, status := range a.manager.Statuses() {
		if failed(status) {
			list = append(list, admin.Warning{
				Code: "model_failed", Severity: "error", Model: status.ID.Name, Text: fmt.Sprintf("Model %v is not ready: %s",
					status.ID, status.Reason),
				Next: "Roll it back to a version that works, or upload a new one.",
			})
		}
	}
	return list
}

// components lists what the program was built of.
func components() []admin.Component {
	list := []admin.Component{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return list
	}
	for _, m := range info.Deps {
		list = append(list, admin.Component{Name: m.Path, Version: m.Version})
	}
	return list
}
