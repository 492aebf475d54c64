package grpcapi

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/test/journal"
)

// testServer is a server with fakes behind it and a client in front of it.
type testServer struct {
	*Server
	engine  *fakeEngine
	shared  *fakeShared
	tracing *fakeTracing
	log     *journal.Journal
	address string
	conn    *grpc.ClientConn
	client  inference.GRPCInferenceServiceClient
	served  chan error
	beta    pointer // a label of echo
}

// start starts a server; change may change its configuration.
func start(t testing.TB, change func(c *Config), dial ...grpc.DialOption) *testServer {
	t.Helper()
	var cfg Config
	if change != nil {
		change(&cfg)
	}
	ts := &testServer{
		engine: &fakeEngine{}, shared: &fakeShared{}, tracing: noTracing(), log: &journal.Journal{},
		served: make(chan error, 1),
	}
	var err error
	ts.Server, err = New(cfg, Deps{
		Log: slog.New(slog.NewTextHandler(ts.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Deps: frontend.Deps{
			Engine: ts.engine, Shared: ts.shared, Name: "edgewise", Version: "1.2.3",
			Labelled: func(model, label string) int64 {
				if model == "echo" && label == "beta" {
					return ts.beta.version()
				}
				return 0
			},
			Labels: func(edgewise.ModelID, string) []string { return []string{"zero", "one"} }, Tracing: ts.tracing,
			Logging: &fakeLogging{settings: kserve.LogSettings{Info: true, Warning: true, Error: true, Format: "default"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ts.address = ln.Addr().String()
	go func() { ts.served <- ts.Serve(ln) }()
	t.Cleanup(func() {
		if ts.isClosing() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := ts.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if n := ts.Statistics().InflightBytes; n != 0 {
			t.Errorf("%d bytes are still in use", n)
		}
	})
	ts.conn = ts.dial(t, dial...)
	ts.client = inference.NewGRPCInferenceServiceClient(ts.conn)
	return ts
}

func noTracing() *fakeTracing {
	return &fakeTracing{settings: edgewise.TraceSettings{
		Levels: []string{"OFF"}, Rate: 1000, Count: -1, Mode: "triton",
	}}
}

// newServer makes a server without a listener.
func newServer(t *testing.T) (*Server, *fakeEngine) {
	t.Helper()
	engine := &fakeEngine{}
	s, err := New(Config{}, Deps{
		Deps: frontend.Deps{Engine: engine, Tracing: noTracing()}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, engine
}

func (ts *testServer) dial(t testing.TB, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if len(options) == 0 {
		options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	options = append(options, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	conn, err := grpc.NewClient(ts.address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// wantStatus fails the test unless err has the code and says text.
func wantStatus(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || err != nil && !strings.Contains(status.Convert(err).Message(), text) {
		t.Errorf("got %v, want %v: %q", err, code, text)
	}
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}
