package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/listen"
	"github.com/edgewise-ai/edgewise/appliance/metricspage"
)

// listeners are where clients connect. A frontend that is not configured has nil.
type listeners struct {
	app                 *App
	rest, grpc, metrics net.Listener
	page                *metricspage.Server
	serving             sync.WaitGroup
}

// open listens at every address, or at none. Errors: Unavailable, naming the key of the address.
func (a *App) open() (*listeners, error) {
	d := &listeners{app: a}
	c := a.config
	var problems []error
	at := func(service, key, address string, reuse bool) net.Listener {
		if address == "" {
			return nil
		}
		l, err := listen.At(address, reuse)
		if errors.Is(err, syscall.EADDRINUSE) { // in Triton's words
			err = fmt.Errorf("failed to start %s service: Unavailable - Socket '%s' already in use: %w", service, address, err)
		}
		if err != nil {
			problems = append(problems, edgewise.Errorf("appliance.Run", edgewise.Unavailable, "%s: %w", key, err))
			return nil
		}
		return l
	}
	d.rest = at("HTTP", "http.address", c.HTTP.Address, c.HTTP.ReusePort)
	d.grpc = at("GRPC", "grpc.address", c.GRPC.Address, c.GRPC.ReusePort)
	if c.Metrics.Enabled {
		d.metrics = at("Metrics", "metrics.address", c.Metrics.Address, false)
	}
	if preset := config.Default().Metrics.Address; c.Metrics.Enabled && d.metrics == nil && c.Metrics.Address == preset && len(problems) == 1 {
		a.logger.Warn("the metrics page has no port of its own: the REST server has it", "reason", problems[0])
		problems = nil
	}
	if len(problems) == 0 {
		return d, nil
	}
	for _, l := range []net.Listener{d.rest, d.grpc, d.metrics} {
		if l != nil {
			problems = append(problems, l.Close())
		}
	}
	return nil, errors.Join(problems...)
}

// serve accepts connections. The channel that it returns gets the result of each frontend that ends.
func (d *listeners) serve() <-chan error {
	if short := d.app.budget.Short(d.connections()); short != "" {
		d.app.logger.Warn("the limit of open files is low", "problem", short)
	}
	served := make(chan error, 3)
	if d.rest != nil {
		d.serving.Go(func() { served <- d.app.rest.Serve(d.app.sniffed(d.rest)) })
	}
	if d.grpc != nil {
		d.serving.Go(func() { served <- d.app.grpc.Serve(d.grpc) })
	}
	if d.metrics != nil {
		a := d.app
		d.page = metricspage.New(metricspage.Config{
			Page: a.metrics(), Public: func() bool { return a.openMode() || a.box.Settings().MetricsPublic },
			Budget: a.budget, Log: a.logger.With("part", "metrics"),
		})
		d.serving.Go(func() {
			if err := d.page.Serve(d.metrics); err != nil {
				served <- edgewise.Errorf("appliance.Run", edgewise.Internal, "metrics.address: %w", err)
			}
		})
	}
	return served
}

// connections is how many connections the configuration allows, at all servers together.
func (d *listeners) connections() (n int) {
	if d.rest != nil {
		n += d.app.config.HTTP.MaxConnections
	}
	if d.grpc != nil {
		n += d.app.config.GRPC.MaxConnections
	}
	if d.metrics != nil {
		n += metricspage.MaxConnections
	}
	return n
}

// announce tells the program the addresses.
func (d *listeners) announce(hooks Hooks) {
	if d.grpc != nil && hooks.ListeningGRPC != nil {
		hooks.ListeningGRPC(d.grpc.Addr())
	}
	if d.metrics != nil && hooks.ListeningMetrics != nil {
		hooks.ListeningMetrics(d.metrics.Addr())
	}
	if d.rest != nil && hooks.Listening != nil {
		hooks.Listening(d.rest.Addr())
	}
}

// close accepts no more connections and answers the requests in progress, at all frontends at the same time.
func (d *listeners) close(ctx context.Context) error {
	var work sync.WaitGroup
	var rest, grpc error
	a := d.app
	if a.grpc != nil {
		work.Go(func() { grpc = a.grpc.Shutdown(ctx) })
	}
	rest = a.rest.Shutdown(ctx)
	if d.page != nil {
		d.page.Close()
	}
	work.Wait()
	return errors.Join(rest, grpc)
}
