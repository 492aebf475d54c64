package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
)

// statusOf returns the status of err for clients.
func statusOf(err error) *status.Status {
	return status.New(codes.Code(apistatus.Of(edgewise.KindOf(err)).GRPC), apistatus.Message(err))
}

// fail returns the status of err as an error, and logs internal errors; what clients did wrong is logged as a detail. An
// error that has a status already, such as those of the library, keeps it.
func (s *Server) fail(method string, err error) error {
	var has interface{ GRPCStatus() *status.Status }
	if err == nil || errors.As(err, &has) {
		return err
	}
	st := statusOf(err)
	level := slog.LevelDebug
	if st.Code() == codes.Internal || st.Code() == codes.DataLoss {
		level = slog.LevelError
	}
	s.deps.Log.Log(context.Background(), level, "call failed", "method", method, "kind", edgewise.KindOf(err).String(),
		"error", err)
	return st.Err()
}

// unary is the interceptor of every call with one request: it authorizes, counts, translates errors and recovers
// panics.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any,
	err error,
) {
	defer func() {
		err = s.ended(ctx, info.FullMethod, recover(), err)
		leave(ctx)
		s.outgoing.lookIf(ctx)
	}()
	if err := s.allowed(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	if err = mayAsk(ctx, info.FullMethod, req); err == nil {
		resp, err = handler(ctx, req)
	}
	s.record(ctx, info.FullMethod, req, err)
	return resp, err
}

// streaming is the interceptor of every call with a stream.
func (s *Server) streaming(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler,
) (err error) {
	defer func() {
		err = s.ended(stream.Context(), info.FullMethod, recover(), err)
		leave(stream.Context())
		s.outgoing.lookIf(stream.Context())
	}()
	if err := s.allowed(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	if info.FullMethod != inference.GRPCInferenceService_ModelStreamInfer_FullMethodName {
		stream = uncounted{stream}
	}
	return handler(srv, stream)
}

// ended counts a call and returns the error for the client.
func (s *Server) ended(ctx context.Context, method string, panicked any, err error) error {
	if panicked != nil {
		err = s.panicked(method, panicked)
	} else if why := edgewise.PrincipalOf(ctx).Revoked(); why != nil && err != nil {
		err = why
	}
	err = s.fail(method, err)
	s.calls.count(method, status.Code(err))
	return err
}

// panicked logs a panic with its stack and returns the error for the client.
func (s *Server) panicked(method string, value any) error {
	s.panics.Add(1)
	s.deps.Log.Error("BUG: a handler panicked", "method", method, "panic", fmt.Sprint(value), "stack",
		string(debug.Stack()))
	return &edgewise.Error{Op: "grpcapi." + method, Kind: edgewise.Internal}
}

// admit refuses inferences that arrive while the memory for requests is used up, before their messages are read, and
// authorizes all calls.
func (s *Server) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	if s.memory.Full() && strings.HasSuffix(info.FullMethodName, "Infer") {
		err := statusOf(s.noMemory()).Err()
		s.calls.count(info.FullMethodName, status.Code(err))
		return ctx, err
	}
	authorized, err := s.authorize(ctx, info)
	if err != nil {
		err = statusOf(err).Err()
		s.calls.count(info.FullMethodName, status.Code(err))
		return ctx, err
	}
	return arriving(authorized, info.FullMethodName), nil
}

func (s *Server) noMemory() error {
	return edgewise.Errorf("grpcapi.noMemory", edgewise.Busy, "the messages of all requests together may take %d bytes "+
		"(grpc.max_inflight_bytes), and those in progress leave too little", s.cfg.MaxInflightBytes)
}

// CallCount is how many calls of a method have ended with a code.
type CallCount struct {
	Method string // without the name of the service
	Code   string // of gRPC, such as "OK" or "InvalidArgument"
	Count  uint64
}

// calls counts the calls that have ended.
type calls struct {
	mu   sync.Mutex // guards seen
	seen map[call]uint64
}

type call struct {
	method string
	code   codes.Code
}

func (c *calls) count(method string, code codes.Code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = make(map[call]uint64)
	}
	c.seen[call{method, code}]++
}

// list returns the counts by method and code.
func (c *calls) list() []CallCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]CallCount, 0, len(c.seen))
	for k, n := range c.seen {
		list = append(list, CallCount{
			Method: k.method[strings.LastIndexByte(k.method, '/')+1:], Code: k.code.String(),
			Count: n,
		})
	}
	slices.SortFunc(list, func(a, b CallCount) int {
		return strings.Compare(a.Method+" "+a.Code, b.Method+" "+b.Code)
	})
	return list
}
