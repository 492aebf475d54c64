package httpapi_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/compatible"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/inference"
)

// fakeEngine serves the models "echo" (FP32 x[-1] to y, versions 1 and 3) and "cold" (not ready).
type fakeEngine struct {
	infers   atomic.Int64
	talked   atomic.Int64
	released atomic.Int64
	hook     func(ctx context.Context, req *edgewise.Request)  // runs in Infer
	fail     error                                             // what Infer answers
	alloc    func(id edgewise.ModelID, n int) ([]byte, func()) // nil: no memory
	failOn   func(req *edgewise.Request) error                 // nil: fail
	writes   bool                                              // the index has the model "writer", too
	notLive  atomic.Bool
	mu       sync.Mutex
	calls    []string
	counted  []string // what was counted: model, version and how it ended
}

// Answer answers as the box does, without counting by version.
func (e *fakeEngine) Answer(ctx context.Context, req *edgewise.Request, x edgewise.Exchange) (*edgewise.Response,
	error,
) {
	resp, err := x.Infer(ctx, e, req)
	e.count(req.Model, err)
	if err != nil {
		resp.Release()
		return nil, err
	}
	return resp, nil
}

// Refuse notes what is refused.
func (e *fakeEngine) Refuse(_ context.Context, id edgewise.ModelID, _ time.Duration, err error) {
	e.count(id, err)
}

func (e *fakeEngine) count(id edgewise.ModelID, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	how := "success"
	if err != nil {
		how = edgewise.KindOf(err).String()
	}
	e.counted = append(e.counted, fmt.Sprintf("%s %d %s", id.Name, id.Version, how))
}

func (e *fakeEngine) record(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, fmt.Sprintf(format, args...))
}

func (e *fakeEngine) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	e.infers.Add(1)
	if e.hook != nil {
		e.hook(ctx, req)
	}
	if e.fail != nil {
		return nil, e.fail
	}
	if e.failOn != nil {
		if err := e.failOn(req); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := e.VersionReady(req.Model); err != nil {
		return nil, err
	}
	switch req.Model.Name {
	case "talker":
		return e.talk(ctx, req)
	case "writer":
		return e.write(req)
	}
	resp := &edgewise.Response{
		ID: req.ID, Model: edgewise.ModelID{Name: req.Model.Name, Version: 3},
		Free: func() { e.released.Add(1) },
	}
	for _, in := range req.Inputs {
		in.Name = "y"
		resp.Outputs = append(resp.Outputs, in)
	}
	return resp, nil
}

// talk answers as a decoupled model: with n responses, which have their number as a parameter, and an end. The parameter
// fault is the number of a response that could not be made, fail that of the error that ends it all.
func (e *fakeEngine) talk(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	if req.Each == nil {
		return nil, edgewise.Errorf("fake", edgewise.Unsupported, "it is decoupled")
	}
	answer := func() *edgewise.Response {
		return &edgewise.Response{ID: req.ID, Model: edgewise.ModelID{Name: "talker", Version: 1}}
	}
	for i := range req.Parameters["n"].(int64) {
		resp := answer()
		switch {
		case req.Parameters["fail"] == i:
			return nil, edgewise.Errorf("fake", edgewise.Guest, "enough")
		case req.Parameters["panic"] == i:
			panic("a secret")
		case req.Parameters["fault"] == i:
			resp.Fault = edgewise.Errorf("fake", edgewise.Guest, "not this one")
		default:
			e.talked.Add(1)
			resp.Parameters = map[string]any{"i": i}
			resp.Free = func() { e.released.Add(1) }
		}
		if err := req.Each(resp); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	last := answer()
	last.Empty = true
	return last, nil
}

func (e *fakeEngine) Live() bool  { return !e.notLive.Load() }
func (e *fakeEngine) Ready() bool { return !e.notLive.Load() }

func (e *fakeEngine) VersionReady(id edgewise.ModelID) error {
	_, _, err := e.Version(id)
	return err
}

func (e *fakeEngine) Version(id edgewise.ModelID) (*edgewise.Version, []int64, error) {
	switch {
	case id.Name == "cold":
		return nil, nil, edgewise.Errorf("fake", edgewise.Unavailable, "Request for unknown model: 'cold' version 1 is not "+
			"at ready state")
	case id.Name == "talker":
		m := echoModel()
		m.Name, m.ModelTransactionPolicy = "talker", &edgewise.ModelTransactionPolicy{Decoupled: true}
		return &edgewise.Version{ID: edgewise.ModelID{Name: "talker", Version: 1}, Model: m}, []int64{1}, nil
	case id.Name == "writer":
		return &edgewise.Version{ID: edgewise.ModelID{Name: "writer", Version: 1}, Model: writerModel(), Created: created}, []int64{1}, nil
	case id.Name != "echo":
		return nil, nil, edgewise.Errorf("fake", edgewise.NotFound, "Request for unknown model: '%s' is not found", id.Name)
	case id.Version != 0 && id.Version != 1 && id.Version != 3:
		return nil, nil, edgewise.Errorf("fake", edgewise.NotFound, "Request for unknown model: '%s' version %d is not found",
			id.Name, id.Version)
	}
	ready := []int64{1, 3}
	if id.Version != 0 {
		ready = []int64{id.Version}
	}
	return &edgewise.Version{ID: edgewise.ModelID{Name: "echo", Version: ready[len(ready)-1]}, Model: echoModel()}, ready,
		nil
}

func echoModel() *edgewise.Model {
	return &edgewise.Model{
		Name: "echo", Backend: "onnxruntime", Platform: "onnxruntime_onnx", MaxBatchSize: 8,
		Input:  []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{4}}},
		Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32, Dims: edgewise.Shape{4}}},
	}
}

// AllocBody returns the memory of alloc.
func (e *fakeEngine) AllocBody(id edgewise.ModelID, n int) ([]byte, func()) {
	if e.alloc == nil {
		return nil, nil
	}
	return e.alloc(id, n)
}

func (e *fakeEngine) Index() []edgewise.Status {
	list := []edgewise.Status{
		{ID: edgewise.ModelID{Name: "cold", Version: 1}, Reason: "unloaded"},
		{ID: edgewise.ModelID{Name: "echo", Version: 3}, State: edgewise.StateReady},
		{ID: edgewise.ModelID{Name: "never"}},
	}
	if e.writes {
		list = append(list, edgewise.Status{ID: edgewise.ModelID{Name: "writer", Version: 1}, State: edgewise.StateReady})
	}
	return list
}

func (e *fakeEngine) Load(_ context.Context, name string, o edgewise.LoadOverride) error {
	e.record("load %s %s %v", name, o.Config, o.Files)
	return e.known(name)
}

func (e *fakeEngine) Unload(_ context.Context, name string, dependents bool) error {
	e.record("unload %s %v", name, dependents)
	return e.known(name)
}

func (e *fakeEngine) known(name string) error {
	if name != "echo" && name != "cold" {
		return edgewise.Errorf("fake", edgewise.NotFound, "failed to load '%s', failed to poll from model repository", name)
	}
	return nil
}

func (e *fakeEngine) Statistics(id edgewise.ModelID) ([]kserve.VersionStatistics, error) {
	if id.Name != "" && id.Name != "echo" {
		return nil, edgewise.Errorf("fake", edgewise.Invalid, "requested model '%s' is not available", id.Name)
	}
	return []kserve.VersionStatistics{{
		ID: edgewise.ModelID{Name: "echo", Version: 3},
		Statistics: edgewise.Statistics{
			LastInference: time.UnixMilli(1700000000123), InferenceCount: 7, ExecutionCount: 5,
			Success: edgewise.Duration{Count: 7, Total: 70 * time.Nanosecond},
		},
	}}, nil
}

// testServer is a server on a real listener.
type testServer struct {
	*httpapi.Server
	engine  *fakeEngine
	library *fakeLibrary
	shared  *fakeShared
	tracing *fakeTracing
	addr    string
	url     string
	labels  bool // the outputs have labels for the compatible interfaces
}

// startServer starts a server with small limits and stops it when the test ends.
func startServer(t testing.TB, change func(*httpapi.Config)) *testServer {
	t.Helper()
	return startServerWith(t, change, nil)
}

// startServerWith is startServer with something done to what the transport gets.
func startServerWith(t testing.TB, change func(*httpapi.Config), parts func(*httpapi.Deps)) *testServer {
	t.Helper()
	cfg := httpapi.Config{
		MaxConnections: 64, MaxHeaderBytes: 4 << 10, MaxInferBytes: 1 << 20, MaxBodyBytes: 64 << 10, MaxUploadBytes: 4 << 20,
		MaxUploadFiles: 8, MaxInflightBytes: 8 << 20, HeaderTimeout: time.Minute, BodyTimeout: time.Minute,
		IdleTimeout: time.Minute, RequestTimeout: time.Minute,
	}
	if change != nil {
		change(&cfg)
	}
	ts := &testServer{
		engine: &fakeEngine{}, library: newFakeLibrary(), shared: &fakeShared{},
		tracing: &fakeTracing{settings: edgewise.TraceSettings{
			Levels: []string{"OFF"}, Rate: 1000, Count: -1,
			Mode: "triton",
		}},
	}
	var err error
	deps := httpapi.Deps{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Name: "edgewise", Version: "1.2.3"}
	if parts != nil {
		parts(&deps)
	}
	if ts.Server, err = httpapi.New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	protocol, err := inference.Register(ts.Server, inference.Deps{
		Deps: frontend.Deps{
			Engine: ts.engine, Shared: ts.shared, Name: "edgewise", Version: "1.2.3", Labelled: ts.library.labelled,
			Logging:   &fakeLogging{kserve.LogSettings{Info: true, Warning: true, Error: true, Format: "default"}},
			Tracing:   ts.tracing,
			AllocBody: ts.engine.AllocBody,
			Labels:    func(_ edgewise.ModelID, output string) []string { return []string{output + "-a", output + "-b"} },
		},
		Metrics: func() ([]byte, string, error) { return []byte("up 1\n"), "text/plain; version=0.0.4", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	compatible.Register(ts.Server, compatible.Deps{
		Engine: ts.engine, Inference: inferences{protocol},
		Labels: func(_ edgewise.ModelID, output string) []string {
			if !ts.labels {
				return nil
			}
			return []string{output + "-a", output + "-b", output + "-c"}
		},
	})
	formats := edgewise.Formats{{Platform: "onnxruntime_onnx", File: "model.onnx"}}
	administered := administration.Deps{
		Statuses: ts.engine.Index, Models: ts.library, Formats: formats, Decode: protocol.Decode,
	}
	if deps.Accounts != nil {
		fill(&administered.Accounts)
	}
	administration.Register(ts.Server, administered)
	ts.listen(t)
	return ts
}

// listen begins to serve, until the test ends.
func (ts *testServer) listen(t testing.TB) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ts.addr = ln.Addr().String()
	ts.url = "http://" + ts.addr
	served := make(chan error, 1)
	go func() { served <- ts.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = ts.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if n := ts.Server.Statistics().InflightBytes; n != 0 {
			t.Errorf("%d bytes of bodies and answers were never given back", n)
		}
	})
}

// do sends a request through a fresh client and returns the answer with its whole body.
func (ts *testServer) do(t testing.TB, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, ts.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header[headers[i]] = []string{headers[i+1]} // as it is spelt
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: body: %v", method, path, err)
	}
	return resp, string(text)
}

// floats returns n FP32 elements as bytes.
func floats(n int) []byte {
	b := make([]byte, 0, 4*n)
	for i := range n {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
	}
	return b
}

// binaryInfer returns the body of a binary inference of n floats, and the length of its JSON part.
func binaryInfer(n int) (string, int) {
	head := fmt.Sprintf(
		`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,%d],"parameters":{"binary_data_size":%d}}],`+
			`"parameters":{"binary_data_output":true}}`, n, 4*n)
	return head + string(floats(n)), len(head)
}
