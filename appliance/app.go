package appliance

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/serving"
)

// Hooks let the program follow what the appliance does. A nil hook is not called.
type Hooks struct {
	// ListeningGRPC is called when the frontends listen, with the address of the gRPC server. It is not called when there is
	// none.
	ListeningGRPC func(address net.Addr)
	// ListeningMetrics is called with the address at which the metrics page stands by itself, when there is one.
	ListeningMetrics func(address net.Addr)
	// Listening is called after them, with the address of the REST server.
	Listening func(address net.Addr)
	// Welcome is called after it, with what a person at the console needs to know.
	Welcome func(w Welcome)
	// Ready is called once everything that is stored as wanted, and everything imported, has been loaded or has failed.
	Ready func()
	// Hurry ends the time of shutdown.delay when something comes from it. Nil: the time passes.
	Hurry <-chan os.Signal
}

// Run listens, applies the stored desired states, imports the repositories and serves until ctx ends. Then it stops in
// order: not ready; after shutdown.delay no new connections, the requests in flight are answered, every model is unloaded,
// the store is closed, all within shutdown.timeout. It returns nil after an orderly stop. It is called once and leaves
// nothing running.
func (a *App) Run(ctx context.Context, imports []string, hooks Hooks) error {
	d, err := a.open()
	if err != nil {
		a.safe.Undo()
		return errors.Join(err, a.closeBox(), a.store.Close())
	}
	safe := a.safe.Active() // until it is left
	served := d.serve()
	d.announce(hooks)
	if err := a.welcome(d, hooks); err != nil {
		a.logger.Error("giving programs on this machine access", "error", err)
	}
	a.monitor.Learn(a.registry.Records())
	if !safe {
		a.registry.Start()
	}
	a.importer.Uploads().Start()
	a.engine.started.Store(true)
	a.notify(daemon.SdNotifyReady)

	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var work sync.WaitGroup
	if d.rest != nil {
		work.Go(func() { a.watchdog(background, d.rest.Addr()) })
	}
	work.Go(func() { a.keep(background) })
	work.Go(func() { a.manager.Watch(background, serving.MemoryLow) })
	work.Go(func() { a.accounts.Watch(background) })
	work.Go(func() { a.monitor.Run(background, a.monitorSources()) })
	work.Go(func() { a.past.Run(background) })
	work.Go(func() { a.recordings.Run(background) })
	work.Go(func() { a.alerts.Run(background) })
	work.Go(func() { a.rollouts.Run(background) })
	work.Go(func() { a.tuner.Run(background) })
	work.Go(func() { a.insight.Run(background) })
	work.Go(func() { a.system.Run(background) })
	work.Go(func() { a.system.drivers.Run(background) })
	var runtime sync.WaitGroup
	failed := make(chan error, 1)
	runtime.Go(func() { a.hardware.Find() })
	work.Go(func() { a.hardware.Watch(background) })
	work.Go(func() {
		if !safe {
			if err := a.load(background, imports); err != nil {
				failed <- err
				return
			}
		}
		runtime.Wait()
		work.Go(func() { a.follow(background, safe) })
		// The collector sets its next goal by what is in use: without this by what starting took, several times what serving does.
		debug.FreeOSMemory()
		if background.Err() == nil && hooks.Ready != nil {
			hooks.Ready()
		}
	})
	select {
	case <-ctx.Done():
		err = a.leave(hooks.Hurry, served)
	case err = <-served:
	case err = <-failed:
	}
	stop()
	work.Wait()
	err = errors.Join(err, a.shutdown(d))
	d.serving.Wait() // an error of a listener that was closed while it opened is ignored
	return err
}

// load imports and loads what the appliance is to serve, and waits for that.
func (a *App) load(ctx context.Context, imports []string) error {
	a.importer.ImportFolders(ctx, imports)
	if err := a.repositories.Start(ctx); err != nil {
		return err
	}
	a.settle(ctx)
	return nil
}

// settle waits until every model has been loaded or has failed; what failed is in the log already.
func (a *App) settle(ctx context.Context) {
	for _, r := range a.registry.Records() {
		if err := a.manager.Settle(ctx, r.Name); err != nil && ctx.Err() != nil {
			return
		}
	}
}

// leave is not ready while load balancers find out, and serves, but keeps no connection of HTTP. It returns why a listener failed.
func (a *App) leave(hurry <-chan os.Signal, served <-chan error) (err error) {
	a.engine.ending.Store(true)
	delay := a.config.Shutdown.Delay
	if delay == 0 {
		return nil
	}
	a.rest.Leave()
	a.logger.Info("not ready, and still answering", "for", delay.String())
	select {
	case <-time.After(delay):
	case <-hurry:
	case err = <-served:
	}
	return err
}

// shutdown stops everything within the configured time.
func (a *App) shutdown(d *listeners) error {
	a.notify(daemon.SdNotifyStopping)
	a.logger.Info("stopping", "within", a.config.Shutdown.Timeout.String())
	a.engine.ending.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), a.config.Shutdown.Timeout)
	defer cancel()
	a.monitor.Hub.Close()
	a.endSequences(ctx)
	closing := d.close(ctx)
	a.importer.Close()
	a.recordings.Close()
	if ctx.Err() != nil {
		// The requests that were cut off are ending now: give them a moment to release their models.
		ctx, cancel = context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
	}
	err := errors.Join(closing, a.manager.Close(ctx), a.closeBox(), a.store.Close())
	if failed := a.tracer.Close(ctx); failed != nil {
		a.logger.Warn("the last traces were not exported", "error", failed)
	}
	if err == nil {
		a.safe.Succeeded()
		a.logger.Info("stopped")
	}
	return err
}

// endSequences lets the sequences in progress end while the frontends still accept requests: for as long as a version that is replaced
// would, and half of the time for the stop at most.
func (a *App) endSequences(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(a.config.Engine.SequenceDrain, a.config.Shutdown.Timeout/2))
	defer cancel()
	if err := a.manager.DrainSequences(ctx); err != nil {
		a.logger.Warn("stopping with sequences in progress")
	}
}

// watchdog tells the service manager that the box is alive, for as long as its own health route answers.
func (a *App) watchdog(ctx context.Context, address net.Addr) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return
	}
	client := &http.Client{Timeout: interval / 3, Transport: a.ownTransport()} // its own, so that no proxy comes between
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(interval / 3)
	defer ticker.Stop()
	for {
		if err := live(ctx, client, a.scheme()+reachable(address)); err == nil {
			a.notify(daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			a.logger.Error("the box does not answer its own health check", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// live sends the box a health request, through its own listener.
func live(ctx context.Context, client *http.Client, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v2/health/live", nil)
	if err != nil {
		return edgewise.Errorf("appliance.live", edgewise.Internal, "%w", err)
	}
	res, err := client.Do(req)
	if err != nil {
		return edgewise.Errorf("appliance.live", edgewise.Unavailable, "%w", err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body) // so that the connection is kept: a full box may have no room for a new one
	if res.StatusCode != http.StatusOK {
		return edgewise.Errorf("appliance.live", edgewise.Unavailable, "health check answered %s", res.Status)
	}
	return nil
}

// reachable turns a listening address into one that can be dialled from the box itself.
func reachable(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

func (a *App) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		a.logger.Error("telling the service manager", "state", state, "error", err)
	}
}
