package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
)

// fakeLogging remembers what it was told.
type fakeLogging struct {
	mu       sync.Mutex
	settings kserve.LogSettings
}

func (f *fakeLogging) Settings() kserve.LogSettings {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settings
}

func (f *fakeLogging) Change(c kserve.LogChange) (kserve.LogSettings, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next, err := c.On(f.settings)
	if err == nil {
		f.settings = next
	}
	return next, err
}

// fakeTracing remembers what it was told, and traces every request unless its level is OFF.
type fakeTracing struct {
	mu       sync.Mutex
	settings edgewise.TraceSettings
	told     []string
}

func (f *fakeTracing) tell(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, fmt.Sprintf(format, args...))
}

func (f *fakeTracing) On() bool { return f.Settings("").Levels[0] != "OFF" }

func (f *fakeTracing) Settings(string) edgewise.TraceSettings {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settings
}

func (f *fakeTracing) Change(model string, c edgewise.TraceChange) error {
	f.tell("change %q %v", model, c.Clear)
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Levels != nil {
		f.settings.Levels = c.Levels
	}
	if c.Rate != nil {
		f.settings.Rate = *c.Rate
	}
	return nil
}

func (f *fakeTracing) Begin(s edgewise.TraceStart) edgewise.TracedRequest {
	f.tell("begin %s %s %s %s %s %v", s.Frontend, s.Model.Name, s.ID, s.Parent, s.State, s.Received.IsZero())
	return &fakeTraced{f}
}

type fakeTraced struct{ tracing *fakeTracing }

func (*fakeTraced) Context(ctx context.Context) context.Context { return ctx }
func (*fakeTraced) Parent() string                              { return "00-own-span-01" }
func (f *fakeTraced) Sending()                                  { f.tracing.tell("sending") }
func (f *fakeTraced) End(err error)                             { f.tracing.tell("end %v", err) }

func TestTraceSetting(t *testing.T) {
	ts := start(t, nil)
	state := func(levels, rate string) string {
		return `settings: {key: "trace_level" value: {value: [` + levels + `]}} settings: {key: "trace_rate" value: {value: "` + rate + `"}}
			settings: {key: "trace_count" value: {value: "-1"}} settings: {key: "log_frequency" value: {value: "0"}}
			settings: {key: "trace_file" value: {value: ""}} settings: {key: "trace_mode" value: {value: "triton"}}`
	}
	for _, test := range []struct {
		name, model, settings string
		code                  codes.Code
		want                  string
	}{
		{"ask", "", "", codes.OK, state(`"OFF"`, "1000")},
		{"ask of a model", "echo", "", codes.OK, state(`"OFF"`, "1000")},
		{"unknown", "", `settings: {key: "x" value: {value: "1"}}`, codes.OK, state(`"OFF"`, "1000")},
		{"unknown model", "dog", "", codes.NotFound, "Request for unknown model : dog"},
		{
			"off and on", "", `settings: {key: "trace_level" value: {value: ["OFF", "TENSORS"]}}`, codes.InvalidArgument,
			"OFF stands beside other trace levels",
		},
		{
			"a bad rate", "", `settings: {key: "trace_rate" value: {value: "x"}}`, codes.InvalidArgument,
			"trace_rate is \"x\": want a number",
		},
		{"two rates", "", `settings: {key: "trace_rate" value: {value: ["1", "2"]}}`, codes.InvalidArgument, "want a number"},
		{
			"a file", "", `settings: {key: "trace_file" value: {value: "f"}}`, codes.Unimplemented,
			"trace file location can not be updated through network protocol",
		},
		{
			"on", "",
			`settings: {key: "trace_level" value: {value: ["TIMESTAMPS", "TENSORS"]}} settings: {key: "trace_rate" value: ` +
				`{value: "2"}}`, codes.OK, state(`"TIMESTAMPS", "TENSORS"`, "2"),
		},
		{"clear", "echo", `settings: {key: "trace_rate" value: {}}`, codes.OK, state(`"TIMESTAMPS", "TENSORS"`, "2")},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := &inference.TraceSettingRequest{}
			if err := prototext.Unmarshal([]byte(test.settings), req); err != nil {
				t.Fatal(err)
			}
			req.ModelName = test.model
			got, err := ts.client.TraceSetting(t.Context(), req)
			if test.code != codes.OK {
				wantStatus(t, err, test.code, test.want)
				return
			}
			wantText(t, got, err, test.want)
		})
	}
	if last := ts.tracing.told[len(ts.tracing.told)-1]; last != `change "echo" [trace_rate]` {
		t.Errorf("the last change was %s", last)
	}
}

func TestInferencesAreTraced(t *testing.T) {
	ts := start(t, nil)
	ts.tracing.settings.Levels = []string{"TIMESTAMPS"}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-client-01", "tracestate", "a=b")
	var head metadata.MD
	if _, err := ts.client.ModelInfer(ctx, raw(8), grpc.Header(&head)); err != nil || len(head.Get("traceparent")) != 1 ||
		head.Get("traceparent")[0] != "00-own-span-01" {
		t.Errorf("%v, %v", head, err)
	}
	bad := raw(8)
	bad.ModelName = "dog"
	_, err := ts.client.ModelInfer(t.Context(), bad)
	wantStatus(t, err, codes.NotFound, "'dog'")
	want := "begin GRPC echo a 00-client-01 a=b false|sending|end <nil>|begin GRPC dog a   false|sending|end Request " +
		"for unknown model: 'dog' is not found"
	if got := strings.Join(ts.tracing.told, "|"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestLogSettings(t *testing.T) {
	ts := start(t, nil)
	state := func(info string, verbose int, format string) string {
		return fmt.Sprintf(`settings: {key: "log_error" value: {bool_param: true}} settings: {key: "log_warning" value: {bool_param: true}}
			settings: {key: "log_info" value: {bool_param: %s}} settings: {key: "log_verbose_level" value: {uint32_param: %d}}
			settings: {key: "log_file" value: {string_param: ""}} settings: {key: "log_format" value: {string_param: "%s"}}`, info, verbose, format)
	}
	for _, test := range []struct {
		name, settings string
		code           codes.Code
		want           string
	}{
		{"ask", "", codes.OK, state("true", 0, "default")},
		{"unknown", `settings: {key: "x" value: {bool_param: true}}`, codes.OK, state("true", 0, "default")},
		{"no value", `settings: {key: "log_verbose_level" value: {}}`, codes.OK, state("true", 0, "default")},
		{
			"another kind", `settings: {key: "log_info" value: {uint32_param: 1}}`, codes.InvalidArgument,
			"invalid value type for log setting 'log_info', expected bool_param",
		},
		{
			"another kind of number", `settings: {key: "log_verbose_level" value: {bool_param: true}}`, codes.InvalidArgument,
			"expected uint32_param",
		},
		{
			"another kind of text", `settings: {key: "log_format" value: {bool_param: true}}`, codes.InvalidArgument,
			"expected string_param",
		},
		{
			"a file",
			`settings: {key: "log_file" value: {string_param: "f"}} settings: {key: "log_info" value: {bool_param: false}}`,
			codes.Unimplemented, "log file location can not be updated through network protocol",
		},
		{
			"a bad format", `settings: {key: "log_format" value: {string_param: "xml"}}`, codes.InvalidArgument,
			"Invalid argument for log_format",
		},
		{
			"a change",
			`settings: {key: "log_info" value: {bool_param: false}} settings: {key: "log_verbose_level" value: {uint32_param: ` +
				`2}} settings: {key: "log_format" value: {string_param: "ISO8601"}}`, codes.OK, state("false", 2, "ISO8601"),
		},
		{"it has changed", "", codes.OK, state("false", 2, "ISO8601")},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := &inference.LogSettingsRequest{}
			if err := prototext.Unmarshal([]byte(test.settings), req); err != nil {
				t.Fatal(err)
			}
			got, err := ts.client.LogSettings(t.Context(), req)
			if test.code != codes.OK {
				wantStatus(t, err, test.code, test.want)
				return
			}
			wantText(t, got, err, test.want)
		})
	}
}

func TestMetadataBecomesParameters(t *testing.T) {
	ts := start(t, func(c *Config) { c.ForwardHeaders = "^X-|priority" })
	got := make(chan any, 1)
	ts.engine.onInfer(func(_ context.Context, req *edgewise.Request) error {
		got <- req.Parameters["x-tenant"]
		return nil
	})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "X-Tenant", "me", "other", "no")
	if _, err := ts.client.ModelInfer(ctx, raw(8)); err != nil {
		t.Fatal(err)
	}
	if v := <-got; v != "me" {
		t.Errorf("the parameter is %v", v)
	}
	_, err := ts.client.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "priority", "1"), raw(8))
	wantStatus(t, err, codes.InvalidArgument, "Header 'priority' is reserved for Triton usage and cannot be forwarded")
	if _, err := New(Config{ForwardHeaders: "("}, Deps{}); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("a bad pattern: %v", err)
	}
}

func TestRestrictedProtocols(t *testing.T) {
	ts := start(t, func(c *Config) {
		c.Restricted = []frontend.Restriction{
			{APIs: []string{"inference", "health"}, Key: "infer", Value: "s3cret"},
			{
				APIs: []string{"model-repository", "shared-memory", "metadata", "model-config", "statistics", "trace", "logging"},
				Key:  "admin", Value: "root",
			},
		}
	})
	c := ts.client
	stream := func(ctx context.Context) error {
		s, err := c.ModelStreamInfer(ctx)
		if err != nil {
			return err
		}
		if err := s.Send(raw(8)); err != nil && !errors.Is(err, io.EOF) { // io.EOF: the stream has ended, and Recv says why
			return err
		}
		if err := s.CloseSend(); err != nil {
			return err
		}
		_, err = s.Recv()
		return err
	}
	for name, test := range map[string]struct {
		key, value string
		call       func(ctx context.Context) error
	}{
		"ServerLive": {"infer", "s3cret", func(ctx context.Context) error {
			_, err := c.ServerLive(ctx, &inference.ServerLiveRequest{})
			return err
		}},
		"ModelInfer": {"infer", "s3cret", func(ctx context.Context) error {
			_, err := c.ModelInfer(ctx, raw(8))
			return err
		}},
		"stream": {"infer", "s3cret", stream},
		"metadata": {"admin", "root", func(ctx context.Context) error {
			_, err := c.ServerMetadata(ctx, &inference.ServerMetadataRequest{})
			return err
		}},
		"index": {"admin", "root", func(ctx context.Context) error {
			_, err := c.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{})
			return err
		}},
		"config": {"admin", "root", func(ctx context.Context) error {
			_, err := c.ModelConfig(ctx, &inference.ModelConfigRequest{Name: "echo"})
			return err
		}},
		"statistics": {"admin", "root", func(ctx context.Context) error {
			_, err := c.ModelStatistics(ctx, &inference.ModelStatisticsRequest{})
			return err
		}},
		"trace": {"admin", "root", func(ctx context.Context) error {
			_, err := c.TraceSetting(ctx, &inference.TraceSettingRequest{})
			return err
		}},
		"logging": {"admin", "root", func(ctx context.Context) error {
			_, err := c.LogSettings(ctx, &inference.LogSettingsRequest{})
			return err
		}},
		"regions": {"admin", "root", func(ctx context.Context) error {
			_, err := c.SystemSharedMemoryStatus(ctx, &inference.SystemSharedMemoryStatusRequest{})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			key := "triton-grpc-protocol-" + test.key
			wantStatus(t, test.call(t.Context()), codes.Unavailable, "This protocol is restricted, expecting header '"+key+"'")
			wantStatus(t, test.call(metadata.AppendToOutgoingContext(t.Context(), key, "wrong")), codes.Unavailable,
				"This protocol is restricted")
			if err := test.call(metadata.AppendToOutgoingContext(t.Context(), key, test.value)); err != nil {
				t.Error(err)
			}
		})
	}
}

// sizes notes how many bytes an answer takes on the wire.
type sizes struct {
	stats.Handler
	wire int
}

func (*sizes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*sizes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*sizes) HandleConn(context.Context, stats.ConnStats)                       {}

func (s *sizes) HandleRPC(_ context.Context, r stats.RPCStats) {
	if in, ok := r.(*stats.InPayload); ok {
		s.wire = in.CompressedLength
	}
}

func TestAnswersAreCompressed(t *testing.T) {
	for _, level := range []int{0, 9} {
		seen := &sizes{}
		ts := start(t, func(c *Config) { c.CompressionLevel = level })
		conn, err := grpc.NewClient(ts.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.UseCompressor("gzip"), grpc.ForceCodecV2(newCodec(blocks.New(1<<20), new(outgoing), 1<<20, nil))),
			grpc.WithStatsHandler(seen))
		if err != nil {
			t.Fatal(err)
		}
		req := raw(1)
		req.Inputs[0].Shape, req.RawInputContents[0] = []int64{100_000}, make([]byte, 100_000)
		got, err := inference.NewGRPCInferenceServiceClient(conn).ModelInfer(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if message := len(got.RawOutputContents[0]); (seen.wire < 10_000) != (level > 0) || message < 100_000 {
			t.Errorf("level %d: %d bytes came for a message of %d", level, seen.wire, message)
		}
		_ = conn.Close()
	}
}
