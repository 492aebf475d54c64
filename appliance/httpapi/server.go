// Package httpapi is the REST frontend: KServe's v2 protocol with Triton's extensions, and the administration of the store.
//
// The life of a request: a connection is tracked (conn.go), its headers are judged before anything of its body is read
// (head.go), the router finds its route (router.go, routes.go), which decides who may call it (authorize.go); its body
// is read within bounds or handed on as a stream (body.go, guard.go), the handler answers it, and its memory goes back
// when the answer has left.
package httpapi

import (
	"context"
	"log/slog"
	"math"
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/listen"
)

// answerBuffer is what a connection gathers of an answer before it writes: smaller answers leave in one system call.
const answerBuffer = 16 << 10

// cutTime bounds how long Shutdown waits for handlers whose connections it has cut.
const cutTime = 5 * time.Second

// Deps are the parts that the server speaks to. All but Metrics, Labels, Logging and Tracing are required.
type Deps struct {
	Engine  Engine
	Library Library
	Shared  SharedMemory
	Log     *slog.Logger
	Name    string // of the server, in its metadata
	Version string // of the server, in its metadata

	// Metrics returns the metrics page and its content type. Nil: there is no such page.
	Metrics func() (page []byte, contentType string, err error)
	// Labels returns the labels of an output's elements, by index. Nil, or returning nil: there are none.
	Labels func(id edgewise.ModelID, output string) []string
	// Logging changes what is logged. Nil: the routes of the log settings are not there.
	Logging Logging
	// Tracing traces requests. Nil: nothing is traced, and the routes of the trace settings are not there.
	Tracing edgewise.Tracing

	// Budget bounds the connections of all servers together. Nil: nothing does.
	Budget *listen.Budget

	// Accounts knows who may do what. Nil: everybody may do everything.
	Accounts Accounts
	// Open says that everybody may do everything though there are accounts.
	Open bool
	// MetricsPublic tells whether the metrics page is for everybody. Nil: it is not.
	MetricsPublic func() bool
	// Box describes the box and changes its settings. Nil: the routes about it are not there.
	Box Box
	// Uploads takes files in pieces, Jobs are what is made of them. Nil: the routes about them are not there.
	Uploads Uploads
	Jobs    Jobs
	// Catalog, Editor and Activity are what the page shows of models, makes of them and watches. Nil: the routes about
	// them are not there.
	Catalog  Catalog
	Editor   Editor
	Activity Activity
	// System changes the system that the box runs on. Nil: the routes about it are not there.
	System System
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
	table   []*route
	router  *router
	memory  *blocks.Memory
	decoder *kserve.Decoder
	panics  atomic.Uint64

	encoders  encoders
	forwarded *regexp.Regexp // names of headers that become parameters; nil: none
	watcher   watcher

	span   span            // of inferences
	base   context.Context // of all requests; ends when Shutdown stops waiting for them
	cancel context.CancelFunc

	host atomic.Pointer[string] // the last Host header that was found good

	mu        sync.Mutex // guards the fields below
	listeners []*listener
	closing   bool
	serving   int           // requests in handlers
	idle      chan struct{} // made by Shutdown, closed when serving falls to 0
}

// New makes a server that does not listen yet. Errors: Invalid, with every problem of cfg.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg, err := cfg.completed()
	if err != nil {
		return nil, edgewise.Errorf("httpapi.New", edgewise.Invalid, "http: %w", err)
	}
	s := &Server{
		cfg: cfg, deps: deps, memory: blocks.New(cfg.MaxInflightBytes),
		decoder: kserve.NewDecoder(kserve.Limits{MaxJSON: cfg.MaxJSONBytes}),
	}
	if s.forwarded, err = headerPattern(cfg.ForwardHeaders); err != nil {
		return nil, edgewise.Errorf("httpapi.New", edgewise.Invalid, "http.forward_headers: %w", err)
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
	s.addRoutes()
	s.http = app.Server()
	s.http.Handler = s.serve
	s.http.HeaderReceived = s.headerReceived
	s.http.ErrorHandler = s.unreadable
	s.http.CloseOnShutdown = true
	return s, nil
}

// addRoutes makes the router of the table.
func (s *Server) addRoutes() {
	s.table = s.routeTable()
	page := &route{method: "GET", handler: s.pageFile, public: true}
	none := &route{handler: s.unrouted, rights: edgewise.Admin}
	for _, r := range append([]*route{page, none}, s.table...) {
		r.complete(s.cfg)
	}
	s.router = newRouter(s.table, page, none)
}

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

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving--
	if s.serving == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
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
