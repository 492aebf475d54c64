package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/listen"
	"golang.org/x/sys/unix"
)

// listeners are where clients connect. A frontend that is not configured has nil.
type listeners struct {
	app                 *App
	rest, grpc, metrics net.Listener
	page                *http.Server // the metrics page's own
	serving             sync.WaitGroup
}

// open listens at every address, or at none. Errors: Unavailable, naming the key of the address.
func (a *App) open() (*listeners, error) {
	d := &listeners{app: a}
	c := a.config
	var problems []error
	listen := func(service, key, address string, reuse bool) net.Listener {
		if address == "" {
			return nil
		}
		l, err := listenAt(address, reuse)
		if errors.Is(err, syscall.EADDRINUSE) { // in Triton's words
			err = fmt.Errorf("failed to start %s service: Unavailable - Socket '%s' already in use: %w", service, address, err)
		}
		if err != nil {
			problems = append(problems, edgewise.Errorf("appliance.Run", edgewise.Unavailable, "%s: %w", key, err))
			return nil
		}
		return l
	}
	d.rest = listen("HTTP", "http.address", c.HTTP.Address, c.HTTP.ReusePort)
	d.grpc = listen("GRPC", "grpc.address", c.GRPC.Address, c.GRPC.ReusePort)
	if c.Metrics.Enabled {
		d.metrics = listen("Metrics", "metrics.address", c.Metrics.Address, false)
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
func (d *listeners) connections() (n int) {
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
		_ = d.page.Close() // a page that is not read to its end is no loss
	}
	work.Wait()
	return errors.Join(rest, grpc)
}

// Bounds of the metrics page's own server.
const (
	metricsHeaderBytes = 8 << 10
	metricsTimeout     = 30 * time.Second
	metricsConnections = 64
)

// boundedMetrics bounds the connections of the metrics page's own server.
func (a *App) boundedMetrics(ln net.Listener) net.Listener {
	return listen.New(ln, listen.Options{
		Max: metricsConnections, Key: "metrics.address", Budget: a.budget, Log: a.logger.With("part", "metrics"),
		Refuse: func(c net.Conn, why error) {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			text := apistatus.Message(why)
			_, _ = fmt.Fprintf(c,
				"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		},
	})
}

// metricsServer answers GET /metrics at an address of its own. Any other path is an empty answer, as in Triton. There are no
// keys here: it answers where metrics are public or accounts are off.
func (a *App) metricsServer() *http.Server {
	page := a.metrics()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.URL.Path != "/metrics":
			w.WriteHeader(http.StatusOK)
		case !a.openMode() && !a.box.Settings().MetricsPublic:
			http.Error(w, "metrics are private here: ask for them at the REST server with an API key, or make them public in "+
				"the settings (metrics.public)", http.StatusUnauthorized)
		default:
			text, contentType, err := page()
			if err != nil {
				a.logger.Error("metrics", "error", err)
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(text)
		}
	})
	return &http.Server{
		Handler: handler, MaxHeaderBytes: metricsHeaderBytes, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout,
		IdleTimeout: metricsTimeout,
		ErrorLog:    slog.NewLogLogger(a.logger.Handler(), slog.LevelDebug),
	}
}
