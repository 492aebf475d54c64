// Package httpapi is the transport of the REST frontend: connections, the reading and bounding of requests, the route
// table, authorization of the matched route, and errors. The handlers are in the packages below it: inference has
// KServe's v2 protocol with Triton's extensions, administration has /api/v1.
//
// The life of a request: a connection is tracked (conn.go), its headers are checked before anything of its body is read
// (head.go), the router finds its route (router.go), which decides who may call it (authorize.go); its body is read
// within bounds or handed on as a stream (body.go, guard.go), the handler answers it, and its memory goes back when the
// answer has left.
package httpapi

import (
	"context"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/listen"
)

// answerBuffer is what a connection gathers of an answer before it writes: smaller answers leave in one system call.
const answerBuffer = 16 << 10

// cutTime bounds how long Shutdown waits for handlers whose connections it has cut.
const cutTime = 5 * time.Second

// Deps are the parts that the server uses. Log is required.
type Deps struct {
	Log     *slog.Logger
	Name    string // of the server, on its overview
	Version string // of the server, on its overview

	// Budget bounds the connections of all servers together. Nil: nothing does.
	Budget *listen.Budget
	// Accounts authenticates callers. Nil: everybody may do everything.
	Accounts Accounts
	// Open says that everybody may do everything though there are accounts.
	Open bool
	// Page finds a file of the page by its path, without the slash that it begins with, in a form that an Accept-Encoding
	// header takes. Nil: there is no page.
	Page func(path, acceptEncoding string) (PageFile, bool)
}

// Server answers HTTP requests. It is safe for concurrent use.
type Server struct {
	cfg     Config
	deps    Deps
	http    *fasthttp.Server
	app     *fiber.App // of the contexts that handlers get
	table   []*Route
	router  *router
	proxies frontend.Proxies
	memory  *blocks.Memory
	panics  atomic.Uint64
	watcher watcher

	span   span            // of inferences
	base   context.Context // of all requests; ends when Shutdown stops waiting for them
	cancel context.CancelFunc

	host    atomic.Pointer[string] // the last Host header that was found good
	leaving atomic.Bool            // each connection ends with its next answer

	mu        sync.Mutex // guards the fields below
	listeners []*listener
	closing   bool
	serving   int           // requests in handlers, and answers that are being made
	idle      chan struct{} // made by Shutdown, closed when serving falls to 0
}

// New makes a server that does not listen yet and has the routes of the page only. Errors: Invalid, with every problem of cfg.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg, err := cfg.completed()
	if err != nil {
		return nil, edgewise.Errorf("httpapi.New", edgewise.Invalid, "http: %w", err)
	}
	s := &Server{cfg: cfg, deps: deps, memory: blocks.New(cfg.MaxInflightBytes)}
	if s.proxies, err = frontend.ParseProxies(cfg.TrustedProxies); err != nil {
		return nil, edgewise.Errorf("httpapi.New", edgewise.Invalid, "http.trusted_proxies: %w", err)
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.span.base, s.span.timeout = s.base, cfg.RequestTimeout
	app := fiber.New(fiber.Config{
		DisableStartupMessage:        true,
		DisablePreParseMultipartForm: true,
		StreamRequestBody:            true,
		BodyLimit:                    math.MaxInt, // the guard's business: the library bounds no streamed body
		Concurrency:                  math.MaxInt32,
		ReadBufferSize:               cfg.MaxHeaderBytes,
		WriteBufferSize:              answerBuffer,
		ReadTimeout:                  cfg.HeaderTimeout,
		IdleTimeout:                  cfg.IdleTimeout,
	})
	s.app = app
	s.addPage()
	s.http = app.Server()
	s.http.Handler = s.serve
	s.http.HeaderReceived = s.headerReceived
	s.http.ErrorHandler = s.unreadable
	s.http.CloseOnShutdown = true
	return s, nil
}

// Config returns the bounds of the server, complete.
func (s *Server) Config() *Config { return &s.cfg }

// Log returns the logger of the server.
func (s *Server) Log() *slog.Logger { return s.deps.Log }

// Memory returns the memory of bodies and answers, which is bounded by Config.MaxInflightBytes.
func (s *Server) Memory() *blocks.Memory { return s.memory }

// Serve answers requests from ln until Shutdown is called, and then returns nil; it closes ln. It may be called for
// several listeners at once. Errors: Conflict after Shutdown, Internal when ln fails.
func (s *Server) Serve(ln net.Listener) error {
	l := newListener(ln, s.cfg, s.deps.Budget, s.deps.Log)
	s.mu.Lock()
	closing := s.closing
	if !closing {
		s.listeners = append(s.listeners, l)
	}
	s.mu.Unlock()
	if closing {
		_ = l.Close()
		return edgewise.Errorf("httpapi.Serve", edgewise.Conflict, "the HTTP server is shut down")
	}
	if err := s.http.Serve(l); err != nil {
		return edgewise.Errorf("httpapi.Serve", edgewise.Internal, "listening on %v: %w", ln.Addr(), err)
	}
	return nil
}

// Leave ends each connection with its next answer from now on, new ones too, so that clients which keep connections go
// elsewhere before Shutdown. Requests are answered as before.
func (s *Server) Leave() { s.leaving.Store(true) }

// Shutdown stops listening, waits until the requests in progress are answered or ctx ends, cuts off what is left, and
// returns when no handler runs any more. Connections without a request in progress are closed at once. Errors: Deadline
// when requests were cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	listeners := s.listeners
	s.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
		l.cut(func(c *conn) bool { return !c.heard.Load() })
	}
	err := s.http.ShutdownWithContext(ctx)
	cut := s.Statistics().Connections
	for _, l := range listeners {
		l.cut(func(*conn) bool { return true })
	}
	s.cancel()
	if !s.waitIdle(cutTime) {
		return edgewise.Errorf("httpapi.Shutdown", edgewise.Deadline, "requests did not end within %v of being cut off",
			cutTime)
	}
	if err != nil {
		return edgewise.Errorf("httpapi.Shutdown", edgewise.Deadline, "%d connections were cut off with a request in "+
			"progress: %w", cut, err)
	}
	return nil
}

// waitIdle waits until no handler runs and tells whether that happened in time.
func (s *Server) waitIdle(limit time.Duration) bool {
	s.mu.Lock()
	if s.serving == 0 {
		s.mu.Unlock()
		return true
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-idle:
		return true
	case <-timer.C:
		return false
	}
}

// enter notes that a request is in progress, and tells whether the server is closing.
func (s *Server) enter() (closing bool) {
	if !s.watcher.on.Load() {
		s.watcher.begin(s.base, s.lookAll)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving++
	return s.closing
}

// leave notes that a request has ended, and tells whether others are in progress.
func (s *Server) leave() (others bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving--
	if s.serving == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
	return s.serving > 0
}

// Statistics is what the server counts about itself.
type Statistics struct {
	Connections   int    // open now
	InflightBytes int64  // memory of bodies and answers, now
	Panics        uint64 // handlers that panicked, each answered with 500
}

// Statistics returns the present counts.
func (s *Server) Statistics() Statistics {
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	stats := Statistics{InflightBytes: s.memory.InUse(), Panics: s.panics.Load()}
	for _, l := range listeners {
		stats.Connections += l.count()
	}
	return stats
}
