package remote

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// Parameters of a model's configuration that say which model of the server it is.
const (
	ModelParameter   = "remote_model"   // its name; the model's own where there is none
	VersionParameter = "remote_version" // its version, a number; the one that the server chooses where there is none
)

// Config says how a server is used.
type Config struct {
	Address     Address
	Token       string        // for servers that ask for one; empty: none
	Manage      bool          // models are loaded and unloaded by the server's repository extension
	MaxRequest  int64         // bytes of the inputs of a request
	MaxAnswer   int64         // bytes of an answer
	LoadTimeout time.Duration // until a model is ready
	Restarts    child.Restarts
	Interval    time.Duration // between looks at a model that is ready; 0: 5 seconds
	Logger      *slog.Logger
}

// Server is a server whose models are versions of the box. It is safe for concurrent use.
type Server struct {
	Config
	protocol

	mu   sync.Mutex // guards what follows
	used map[string]int
}

// Bounds of the time for questions that are no inferences.
const (
	questionTimeout = 5 * time.Second
	defaultInterval = 5 * time.Second
	lastBackOff     = 5 * time.Second // between attempts to reach a server
)

// New returns a server. Nothing is sent to it yet. Errors: Invalid.
func New(c Config) (*Server, error) {
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	c.Restarts = c.Restarts.Complete()
	c.Restarts.LastBackOff = min(c.Restarts.LastBackOff, lastBackOff)
	p, err := connect(c)
	if err != nil {
		return nil, err
	}
	return &Server{Config: c, protocol: p, used: map[string]int{}}, nil
}

// Live returns nil when the server answers. Error: Unavailable, with the reason.
func (s *Server) Live(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	return s.reason(s.protocol.Live(ctx))
}

// Target returns the model of the server that a model stands for. Error: Invalid.
func Target(m *edgewise.Model) (edgewise.ModelID, error) {
	id := edgewise.ModelID{Name: m.Name}
	if named := m.Parameters[ModelParameter].StringValue; named != "" {
		id.Name = named
	}
	if err := edgewise.CheckName(id.Name); err != nil {
		return id, edgewise.Errorf("remote.Target", edgewise.Invalid, "model %q: parameters: %s: %w", m.Name, ModelParameter, err)
	}
	text := m.Parameters[VersionParameter].StringValue
	if text == "" {
		return id, nil
	}
	var err error
	if id.Version, err = strconv.ParseInt(text, 10, 64); err != nil || id.Version < 1 {
		return id, edgewise.Errorf("remote.Target", edgewise.Invalid, "model %q: parameters: %s: want a number above 0, got %.64q",
			m.Name, VersionParameter, text)
	}
	return id, nil
}

// Describe returns what the server says of a model's configuration, after it has been compared with what m declares.
// Errors: Invalid for a contradiction, NotFound, Unavailable.
func (s *Server) Describe(ctx context.Context, m *edgewise.Model) (*edgewise.Model, error) {
	id, err := Target(m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.LoadTimeout)
	defer cancel()
	if s.Manage {
		defer s.lease(id.Name)(ctx)
		if err := s.ready(ctx, id); err != nil {
			return nil, s.about(m, err)
		}
	}
	v, err := s.view(ctx, id)
	if err != nil {
		return nil, s.about(m, err)
	}
	if err := v.compare(m); err != nil {
		return nil, err
	}
	return v.complete(m), nil
}

// about says which model and which server an error is about.
func (s *Server) about(m *edgewise.Model, err error) error {
	return edgewise.Errorf("remote", edgewise.KindOf(err), "model %q: %w", m.Name, err)
}

// reason says of an error which server it comes from. A server that refuses the box is Unavailable, because a client of the
// box cannot change that; an answer that cannot be used is Internal.
func (s *Server) reason(err error) error {
	if err == nil {
		return nil
	}
	kind := edgewise.KindOf(err)
	switch kind {
	case edgewise.Unauthenticated, edgewise.Denied:
		kind = edgewise.Unavailable
	}
	if errors.Is(err, client.ErrAnswer) {
		kind = edgewise.Internal
	}
	return edgewise.Errorf("remote", kind, "the server at %v: %w", s.Address, err)
}

// ready returns nil when a model is ready, after it has been loaded where that is asked for. Errors: those of the server.
func (s *Server) ready(ctx context.Context, id edgewise.ModelID) error {
	question, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	err := s.ModelReady(question, id)
	if err == nil || !s.Manage {
		return s.reason(err)
	}
	if live := s.protocol.Live(question); live != nil {
		return s.reason(live)
	}
	load, cancel := context.WithTimeout(ctx, s.LoadTimeout)
	defer cancel()
	if err := s.protocol.Load(load, id.Name); err != nil {
		return s.reason(err)
	}
	return s.reason(s.ModelReady(load, id))
}

// lease notes that a model of the server is used. The last one that gives it back unloads it, where the server's models
// are loaded for the box.
func (s *Server) lease(name string) (end func(context.Context)) {
	s.mu.Lock()
	s.used[name]++
	s.mu.Unlock()
	return func(ctx context.Context) {
		s.mu.Lock()
		s.used[name]--
		last := s.used[name] == 0
		if last {
			delete(s.used, name)
		}
		s.mu.Unlock()
		if !last || !s.Manage {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), questionTimeout)
		defer cancel()
		if err := s.Unload(ctx, name); err != nil {
			s.Logger.Warn("a model of a server was not unloaded", "model", name, "address", s.Address.String(), "error", err)
		}
	}
}
