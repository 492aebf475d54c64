package grpcapi

import (
	"compress/gzip"
	"context"
	"log/slog"
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/listen"
)

// cutTime bounds how long Shutdown waits for handlers whose connections it has cut.
const cutTime = 5 * time.Second

// What a client may send of a message before the server asks for the rest of it, and of all calls of a connection before
// the server has received it. The windows of the library begin at 64 KiB, for which a large tensor has to wait, and are
// extended by pings that measure.
const (
	streamWindow     = 2 << 20
	connectionWindow = 4 << 20
)

// Deps are the parts that the server calls. Of those of the protocol, Logging and Tracing are required.
type Deps struct {
	frontend.Deps
	Log    *slog.Logger
	Budget *listen.Budget // of the connections of all servers together; nil: they have no budget

	// Authorize returns the caller that a secret belongs to; done, which may be nil, is called when the call has ended.
	// Nil: all callers have all rights. Errors: Unauthenticated, Denied, Busy.
	Authorize func(secret string, peer net.Addr) (caller *edgewise.Principal, done func(), err error)
	// Record writes the audit log's line about a call that changes something, or failed to; caller is nil without
	// accounts. Nil: no log is written.
	Record func(caller *edgewise.Principal, from, action, target string, err error)
}

// Server answers gRPC calls. It is safe for concurrent use.
type Server struct {
	cfg       Config
	deps      Deps
	grpc      *grpc.Server
	memory    *blocks.Memory
	outgoing  outgoing
	limits    kserve.Limits
	calls     calls
	panics    atomic.Uint64
	forwarded *regexp.Regexp // keys of metadata that become parameters; nil: none
	proxies   frontend.Proxies
	work      sync.WaitGroup // goroutines of streams, which may outlive their handlers a little

	base     context.Context // of work that outlives its call; ends when Shutdown stops waiting
	cancel   context.CancelFunc
	draining chan struct{} // closed when Shutdown begins

	mu        sync.Mutex // guards the fields below
	listeners []*listen.Listener
	closing   bool
}

// New makes a server that does not listen yet. Errors: Invalid, with every problem of cfg.
func New(cfg Config, deps Deps) (*Server, error) {
	const op = "grpcapi.New"
	cfg, err := cfg.completed()
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "grpc: %w", err)
	}
	identity, err := cfg.credentials()
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "grpc: %w", err)
	}
	registerCompressors()
	s := &Server{
		cfg: cfg, deps: deps, memory: blocks.New(cfg.MaxInflightBytes),
		limits:   kserve.Limits{MaxDecoded: cfg.MaxDecodedBytes}.WithDefaults(),
		draining: make(chan struct{}),
	}
	if s.forwarded, err = frontend.HeaderPattern(cfg.ForwardHeaders); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "grpc.forward_headers: %w", err)
	}
	if s.proxies, err = frontend.ParseProxies(cfg.TrustedProxies); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "http.trusted_proxies: %w", err)
	}
	if cfg.CompressionLevel > 0 {
		if cfg.CompressionLevel > gzip.BestCompression {
			return nil, edgewise.Errorf(op, edgewise.Invalid, "grpc.response_compression is level %d: at most %d is possible",
				cfg.CompressionLevel, gzip.BestCompression)
		}
		// of the answers of all servers of the process
		encoding.GetCompressor("gzip").(*compressor).level.Store(int64(cfg.CompressionLevel))
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	if identity == nil {
		identity = insecure.NewCredentials()
	}
	s.grpc = grpc.NewServer(append(s.options(), grpc.Creds(observed{identity, s.memory, s.outgoing.look}), grpc.ReadBufferSize(0))...)
	s.register()
	return s, nil
}

func (s *Server) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec(s.memory, &s.outgoing, s.cfg.MaxMessageBytes, s.panicked)),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.MaxRecvMsgSize(int(s.cfg.MaxMessageBytes)),
		grpc.MaxSendMsgSize(LargestMessageBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(uint32(s.cfg.MaxStreams)),
		grpc.ConnectionTimeout(s.cfg.ConnectTimeout),
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.streaming),
		grpc.InTapHandle(s.admit),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: s.cfg.KeepaliveTime, Timeout: s.cfg.KeepaliveTimeout,
			MaxConnectionAge: s.cfg.MaxConnectionAge, MaxConnectionAgeGrace: s.cfg.MaxConnectionAgeGrace,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: s.cfg.KeepaliveMinInterval, PermitWithoutStream: s.cfg.KeepalivePermitWithoutCalls,
		}),
	}
}

func (s *Server) register() {
	s.grpc.RegisterService(s.description(), &service{Server: s})
	grpc_health_v1.RegisterHealthServer(s.grpc, &health{server: s})
	reflection.Register(s.grpc)
}

// Serve answers calls from ln until Shutdown is called, and then returns nil; it closes ln. It may be called for
// several listeners at once. Errors: Conflict after Shutdown, Internal when ln fails.
func (s *Server) Serve(ln net.Listener) error {
	const op = "grpcapi.Serve"
	l := listen.New(ln, listen.Options{
		Max: s.cfg.MaxConnections, Key: "grpc.max_connections", Budget: s.deps.Budget,
		Log: s.deps.Log,
	})
	s.mu.Lock()
	closing := s.closing
	if !closing {
		s.listeners = append(s.listeners, l)
	}
	s.mu.Unlock()
	if closing {
		_ = l.Close()
		return edgewise.Errorf(op, edgewise.Conflict, "the gRPC server is shut down")
	}
	if err := s.grpc.Serve(l); err != nil && !s.isClosing() {
		return edgewise.Errorf(op, edgewise.Internal, "listening on %v: %w", ln.Addr(), err)
	}
	return nil
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// Shutdown stops listening, waits until the calls in progress are answered or ctx ends, disconnects the remaining
// clients, and returns when no handler runs any more. A stream ends when the requests read from it are answered. It is
// called once. Errors: Deadline when clients were disconnected, or their calls did not end even then.
func (s *Server) Shutdown(ctx context.Context) error {
	const op = "grpcapi.Shutdown"
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	close(s.draining)
	defer s.cancel()
	drained := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		s.work.Wait()
		s.outgoing.look()
		close(drained)
	}()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
	}
	cut := s.Statistics().Connections
	s.cancel()
	go s.grpc.Stop() // it waits for handlers too; GracefulStop returns when it has cut the connections and they have ended
	timer := time.NewTimer(cutTime)
	defer timer.Stop()
	select {
	case <-drained:
		return edgewise.Errorf(op, edgewise.Deadline, "%d gRPC connections were cut off with calls in progress: %w", cut,
			ctx.Err())
	case <-timer.C:
		return edgewise.Errorf(op, edgewise.Deadline, "gRPC calls did not end within %v of being cut off", cutTime)
	}
}

// Statistics are the counters of the server.
type Statistics struct {
	Connections   int    // open now
	InflightBytes int64  // memory of inference requests, now
	Panics        uint64 // handlers that panicked, each answered with INTERNAL
	Calls         []CallCount
}

// Statistics returns the present counts.
func (s *Server) Statistics() Statistics {
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	stats := Statistics{InflightBytes: s.memory.InUse(), Panics: s.panics.Load(), Calls: s.calls.list()}
	for _, l := range listeners {
		stats.Connections += l.Open()
	}
	return stats
}
