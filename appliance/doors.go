package appliance

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// doors are where clients come in. Those that there are none of are nil.
type doors struct {
	app                 *App
	rest, grpc, metrics net.Listener
	page                *http.Server // the metrics page's own
	serving             sync.WaitGroup
}

// open listens at every door, or at none. Errors: Unavailable, naming the key of the address.
func (a *App) open() (*doors, error) {
	d := &doors{app: a}
	c := a.config
	var problems []error
	listen := func(key, address string, reuse bool) net.Listener {
		if address == "" {
			return nil
		}
		l, err := listenAt(address, reuse)
		if err != nil {
			problems = append(problems, edgewise.Errorf("appliance.Run", edgewise.Unavailable, "%s: %w", key, err))
			return nil
		}
		return l
	}
	d.rest = listen("http.address", c.HTTP.Address, c.HTTP.ReusePort)
	d.grpc = listen("grpc.address", c.GRPC.Address, c.GRPC.ReusePort)
	if c.Metrics.Enabled {
		d.metrics = listen("metrics.address", c.Metrics.Address, false)
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

// listenAt listens; reuse lets other processes of the same user listen at the same port.
func listenAt(address string, reuse bool) (net.Listener, error) {
	var l net.ListenConfig
	if reuse {
		l.Control = func(_, _ string, conn syscall.RawConn) error {
			var option error
			err := conn.Control(func(fd uintptr) { option = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
			return errors.Join(err, option)
		}
	}
	return l.Listen(context.Background(), "tcp", address)
}

// serve lets clients in. What it returns gets the first word of each door that is closed.
func (d *doors) serve() <-chan error {
	if short := d.app.budget.Short(d.connections()); short != "" {
		d.app.logger.Warn("the limit of open files is low", "problem", short)
	}
	served := make(chan error, 3)
	if d.rest != nil {
		d.serving.Go(func() { served <- d.app.door.Serve(d.app.sniffed(d.rest)) })
	}
	if d.grpc != nil {
		d.serving.Go(func() { served <- d.app.grpc.Serve(d.grpc) })
	}
	if d.metrics != nil {
		d.page = d.app.metricsServer()
		bounded := d.app.boundedMetrics(d.metrics)
		d.serving.Go(func() {
			if err := d.page.Serve(bounded); !errors.Is(err, http.ErrServerClosed) {
				served <- edgewise.Errorf("appliance.Run", edgewise.Internal, "metrics.address: %w", err)
			}
		})
	}
	return served
}

// connections is how many connections the configuration allows, at all servers together.
func (d *doors) connections() (n int) {
	if d.rest != nil {
		n += d.app.config.HTTP.MaxConnections
	}
	if d.grpc != nil {
		n += d.app.config.GRPC.MaxConnections
	}
	if d.metrics != nil {
		n += metricsConnections
	}
	return n
}

// announce tells the program where the doors are.
func (d *doors) announce(hooks Hooks) {
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

// close answers what is in progress at every door, at the same time, and lets nobody in any more.
func (d *doors) close(ctx context.Context) error {
	var work sync.WaitGroup
	var rest, grpc error
	a := d.app
	if a.grpc != nil {
		work.Go(func() { grpc = a.grpc.Shutdown(ctx) })
	}
	rest = a.door.Shutdown(ctx)
	if d.page != nil {
		_ = d.page.Close() // a page that is not read to its end is no loss
	}
	work.Wait()
	return errors.Join(rest, grpc)
}
