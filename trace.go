package edgewise

import (
	"context"
	"time"
)

// TraceSettings says which requests are traced and what is noted of them, in the meaning of the inference protocol's
// trace extension.
type TraceSettings struct {
	Levels       []string // "OFF" alone, or of "TIMESTAMPS" and "TENSORS"
	Rate         int64    // one of so many requests is traced; 0: only those that ask for it
	Count        int64    // so many more requests are traced; -1: any number
	LogFrequency int64    // traces in one file; 0: all
	File         string
	Mode         string            // "triton" or "opentelemetry"
	Options      map[string]string // of the mode opentelemetry
}

// TraceChange changes trace settings. What is nil stays as it is.
type TraceChange struct {
	Levels                    []string
	Rate, Count, LogFrequency *int64
	// settings, by their names in the protocol, that become again what they were at the start, or what the server's are
	Clear []string
}

// TraceStart is what a frontend knows of a request when it begins.
type TraceStart struct {
	Frontend string    // "HTTP" or "GRPC"
	Model    ModelID   // as the client named it
	ID       string    // of the request
	Received time.Time // when its first byte came, as far as the frontend knows
	Parent   string    // the W3C traceparent that came with it; empty: none
	State    string    // the W3C tracestate that came with it
}

// TracedRequest is a request that is being traced. It is used by one goroutine.
type TracedRequest interface {
	// Context carries the trace to where the request is answered.
	Context(ctx context.Context) context.Context
	// Parent is the W3C traceparent of the request's own span; empty when there is none.
	Parent() string
	// Sending notes that the answer is ready to be sent.
	Sending()
	// End ends the trace, once. err is why there is no answer; nil when there is one.
	End(err error)
}

// Tracing decides which requests are traced. All methods are safe for concurrent use.
type Tracing interface {
	// Begin starts the trace of a request; nil when it is not traced, which is found out cheaply.
	Begin(start TraceStart) TracedRequest
	// On tells whether any request may be traced at all.
	On() bool
	// Settings returns what holds for a model, or for the server when it names none.
	Settings(model string) TraceSettings
	// Change changes the settings of a model, or of the server when it names none. Errors: Invalid, Unsupported.
	Change(model string, change TraceChange) error
}
