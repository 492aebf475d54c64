package grpcapi

import (
	"context"
	"crypto/subtle"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// restrictedPrefix stands before the key of a Restriction in metadata.
const restrictedPrefix = "triton-grpc-protocol-"

// allowed refuses a call of a restricted API that lacks the value.
func (s *Server) allowed(ctx context.Context, method string) error {
	if len(s.cfg.Restricted) == 0 {
		return nil
	}
	api := methodOf(method).api
	for _, r := range s.cfg.Restricted {
		if !slices.Contains(r.APIs, api) {
			continue
		}
		values := metadata.ValueFromIncomingContext(ctx, restrictedPrefix+r.Key)
		if len(values) == 0 || subtle.ConstantTimeCompare([]byte(values[0]), []byte(r.Value)) == 0 {
			return edgewise.Errorf("grpcapi.allowed", edgewise.Unavailable, "This protocol is restricted, expecting "+
				"header '%s%s'", restrictedPrefix, r.Key)
		}
	}
	return nil
}

// forward makes parameters of the metadata whose keys match. Errors: Invalid.
func (s *Server) forward(ctx context.Context, req *edgewise.Request) error {
	if s.forwarded == nil {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for key, values := range md {
		if len(values) == 0 || !s.forwarded.MatchString(key) {
			continue
		}
		if err := kserve.ForwardHeader(req, key, values[0]); err != nil {
			return err
		}
	}
	return nil
}

// The metadata of a W3C trace context.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

// trace begins the trace of an inference; nil when it is not traced.
func (s *Server) trace(ctx context.Context, req *edgewise.Request, received time.Time) edgewise.TracedRequest {
	if s.deps.Tracing == nil || !s.deps.Tracing.On() {
		return nil
	}
	first := func(key string) string {
		if values := metadata.ValueFromIncomingContext(ctx, key); len(values) > 0 {
			return values[0]
		}
		return ""
	}
	return s.deps.Tracing.Begin(edgewise.TraceStart{
		Frontend: "GRPC", Model: req.Model, ID: req.ID, Received: received, Parent: first(traceParent),
		State: first(traceState),
	})
}

// compress makes the library compress the responses of a call, if that is configured and the client accepts it. By
// default the library compresses the responses to clients that compress their requests.
func (s *Server) compress(ctx context.Context) {
	if s.cfg.CompressionLevel == 0 {
		_ = grpc.SetSendCompressor(ctx, encoding.Identity)
		return
	}
	if names, err := grpc.ClientSupportedCompressors(ctx); err == nil && slices.Contains(names, "gzip") {
		_ = grpc.SetSendCompressor(ctx, "gzip")
	}
}
