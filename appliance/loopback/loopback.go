// Package loopback lets the box send requests to a model as clients do. Each request is encoded, goes over a TCP connection, and
// is read, decoded and answered by the REST frontend. So what is measured contains the work of a frontend and of a client.
package loopback

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/inference"
)

const (
	// Connections is how many requests are sent at a time. Further ones wait.
	Connections = 128
	// closeTime bounds how long Close waits for requests in progress.
	closeTime = 10 * time.Second
)

// Model is what answers requests.
type Model struct {
	edgewise.Inferer
	// AllocBody returns n bytes, aligned to 64, in which the tensors of a request need no copy; nil when none are free. The
	// caller calls free once. Nil: there is no such memory.
	AllocBody func(n int) (data []byte, free func())
}

// Config configures a Loopback.
type Config struct {
	Protocol frontend.Deps  // of the box's own frontends
	HTTP     httpapi.Config // of the box's REST frontend: its bounds hold here, too
}

// Loopback sends requests to one model at a time. No other process can connect to it. It is safe for concurrent use.
type Loopback struct {
	server   *httpapi.Server
	client   *client.Client
	listener *listener
	serving  sync.WaitGroup        // the server, until Close
	model    atomic.Pointer[Model] // nil: none
	numbers  atomic.Uint64         // of requests, in their IDs
	waiting  sync.Map              // the context of the caller of each request, by its ID
}

// New makes a Loopback without a model. The caller closes it. Errors: those of httpapi.New and of inference.Register.
func New(c Config, logger *slog.Logger) (*Loopback, error) {
	bounds := httpapi.Config{
		MaxInferBytes: c.HTTP.MaxInferBytes, MaxJSONBytes: c.HTTP.MaxJSONBytes, MaxInflightBytes: c.HTTP.MaxInflightBytes,
	}
	server, err := httpapi.New(bounds, httpapi.Deps{Log: logger})
	if err != nil {
		return nil, err
	}
	l := &Loopback{server: server, listener: newListener()}
	protocol := c.Protocol
	protocol.Engine, protocol.AllocBody, protocol.Tracing = engine{c.Protocol.Engine, l}, l.allocBody, nil
	if _, err := inference.Register(server, inference.Deps{Deps: protocol}); err != nil {
		return nil, err
	}
	l.client, err = client.New("http://"+host, client.WithDialer(l.listener.dial), client.WithConnections(Connections))
	if err != nil {
		return nil, err
	}
	l.serving.Go(func() { _ = server.Serve(l.listener) }) // accepting does not fail before Close
	return l, nil
}

// Serve has m answer the requests that come from now on. Nil: none is answered.
func (l *Loopback) Serve(m *Model) { l.model.Store(m) }

// Infer sends a request with binary tensors in both directions; its ID is replaced. It is canceled with ctx at once. The outputs
// are in memory of the response's own. Errors: those of the model and of client.Client.Infer.
func (l *Loopback) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	sent := *req
	sent.ID = strconv.FormatUint(l.numbers.Add(1), 10)
	l.waiting.Store(sent.ID, ctx)
	defer l.waiting.Delete(sent.ID)
	return l.client.Infer(ctx, &sent)
}

// Close waits for requests in progress, for at most 10 s. Errors: those of httpapi.Server.Shutdown.
func (l *Loopback) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	l.client.Close()
	err := errors.Join(l.server.Shutdown(ctx), l.listener.Close())
	l.serving.Wait()
	return err
}

// allocBody returns memory of the model for the tensors of a request.
func (l *Loopback) allocBody(_ edgewise.ModelID, n int) (data []byte, free func()) {
	m := l.model.Load()
	if m == nil || m.AllocBody == nil {
		return nil, nil
	}
	return m.AllocBody(n)
}

// engine is the box's engine, with the model in place of its models where inferences are answered. These are no requests of
// clients, and not counted as such.
type engine struct {
	frontend.Engine
	loopback *Loopback
}

// Answer has the model answer. The request ends with the context of its caller: the frontend finds out later that the caller
// has left, since it looks at connections from time to time.
func (e engine) Answer(_ context.Context, req *edgewise.Request, x edgewise.Exchange) (*edgewise.Response, error) {
	const op = "loopback.Answer"
	m := e.loopback.model.Load()
	if m == nil {
		return nil, edgewise.Errorf(op, edgewise.Unavailable, "model %v is not served here any more", req.Model)
	}
	caller, waits := e.loopback.waiting.Load(req.ID)
	if !waits {
		return nil, edgewise.Errorf(op, edgewise.Canceled, "nobody waits for the answer any more")
	}
	return x.Infer(caller.(context.Context), m, req)
}

// Refuse counts nothing.
func (engine) Refuse(context.Context, edgewise.ModelID, time.Duration, error) {}
