package observe

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
)

func newTestTracer(t *testing.T, s edgewise.TraceSettings, e Export) *Tracer {
	t.Helper()
	if s.Mode == "" {
		s.Mode = "triton"
	}
	tr, err := NewTracer(TraceConfig{Settings: s, Export: e, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func number(n int64) *int64 { return &n }

func begins(tr *Tracer, model string, n int) string {
	var b strings.Builder
	for range n {
		if tr.Begin(edgewise.TraceStart{Model: edgewise.ModelID{Name: model}}) != nil {
			b.WriteByte('x')
		} else {
			b.WriteByte('.')
		}
	}
	return b.String()
}

func TestWhichRequestsAreTraced(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings edgewise.TraceSettings
		want     string
	}{
		{"off", edgewise.TraceSettings{Levels: []string{"OFF"}, Rate: 1, Count: -1}, "......"},
		{"all", edgewise.TraceSettings{Levels: []string{"TIMESTAMPS"}, Rate: 1, Count: -1}, "xxxxxx"},
		{"every third", edgewise.TraceSettings{Levels: []string{"TENSORS"}, Rate: 3, Count: -1}, "..x..x"},
		{"two", edgewise.TraceSettings{Levels: []string{"TIMESTAMPS"}, Rate: 1, Count: 2}, "xx...."},
		{"none", edgewise.TraceSettings{Levels: []string{"TIMESTAMPS"}, Rate: 0, Count: -1}, "......"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := begins(newTestTracer(t, test.settings, Export{}), "m", 6); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestSettingsOfModels(t *testing.T) {
	tr := newTestTracer(t, edgewise.TraceSettings{Levels: []string{"OFF"}, Rate: 1000, Count: -1, LogFrequency: 7},
		Export{})
	say := func(model string) string {
		s := tr.Settings(model)
		return fmt.Sprint(s.Levels, s.Rate, s.Count, s.LogFrequency)
	}
	change := func(model string, c edgewise.TraceChange) {
		if err := tr.Change(model, c); err != nil {
			t.Error(err)
		}
	}
	want := func(model, text string) {
		t.Helper()
		if got := say(model); got != text {
			t.Errorf("the settings of %q are %s, want %s", model, got, text)
		}
	}
	change("a", edgewise.TraceChange{Levels: []string{"TIMESTAMPS"}, Rate: number(1), Count: number(2)})
	want("a", "[TIMESTAMPS] 1 2 7")
	want("b", "[OFF] 1000 -1 7")
	want("", "[OFF] 1000 -1 7")
	if a, b := begins(tr, "a", 3), begins(tr, "b", 3); a != "xx." || b != "..." {
		t.Errorf("traced are %s and %s", a, b)
	}
	want("a", "[TIMESTAMPS] 1 0 7") // what is left
	change("", edgewise.TraceChange{Rate: number(5), LogFrequency: number(9)})
	want("a", "[TIMESTAMPS] 1 0 9")
	want("b", "[OFF] 5 -1 9")
	change("a", edgewise.TraceChange{Clear: []string{"trace_level", "trace_rate", "trace_count", "log_frequency"}})
	want("a", "[OFF] 5 -1 9")
	if len(tr.models) != 0 || tr.On() {
		t.Errorf("%d models have settings, on is %v", len(tr.models), tr.On())
	}
	change("", edgewise.TraceChange{Clear: []string{"trace_rate", "log_frequency"}})
	want("", "[OFF] 1000 -1 7")
	for i := range maxTracedModels {
		change(fmt.Sprint("m", i), edgewise.TraceChange{Rate: number(1)})
	}
	if err := tr.Change("more", edgewise.TraceChange{Rate: number(1)}); err == nil ||
		edgewise.KindOf(err) != edgewise.Exhausted {
		t.Errorf("one model too many: %v", err)
	}
}

// pipeline answers "outer" by asking "inner" through the tracer, and everything else by itself.
type pipeline struct{ through edgewise.Inferer }

func (p *pipeline) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	resp := &edgewise.Response{
		Model: edgewise.ModelID{Name: req.Model.Name, Version: 3},
		Outputs: []edgewise.Tensor{{
			Name: "y", Type: edgewise.FP32, Shape: edgewise.Shape{1, 2},
			Data: []byte{0, 0, 128, 63, 0, 0, 0, 64},
		}},
	}
	switch req.Model.Name {
	case "outer":
		_, err := p.through.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: "inner"}})
		return resp, err
	case "broken":
		return nil, errors.New("broken on purpose")
	}
	resp.Timing = edgewise.Timing{
		Queue: time.Microsecond, Input: time.Microsecond, Infer: time.Microsecond,
		Output: time.Microsecond,
	}
	return resp, nil
}

// run sends one request through a tracer, as a frontend does.
func run(t *testing.T, tr *Tracer, start edgewise.TraceStart) {
	t.Helper()
	p := &pipeline{}
	p.through = tr.Inferer(p)
	trace := tr.Begin(start)
	if trace == nil {
		t.Fatal("it is not traced")
	}
	in := edgewise.Tensor{
		Name: "x", Type: edgewise.Bytes, Shape: edgewise.Shape{2},
		Data: edgewise.AppendElement(edgewise.AppendElement(nil, "a,\"b"), ""),
	}
	_, err := p.through.Infer(trace.Context(t.Context()),
		&edgewise.Request{Model: start.Model, ID: start.ID, Inputs: []edgewise.Tensor{in}})
	trace.Sending()
	trace.End(err)
}

// entry is any entry of a trace file.
type entry struct {
	ID      uint64      `json:"id"`
	Model   string      `json:"model_name"`
	Version int64       `json:"model_version"`
	Request string      `json:"request_id"`
	Parent  uint64      `json:"parent_id"`
	Times   []traceTime `json:"timestamps"`
	What    string      `json:"activity"`
	Tensor  struct{ Name, Data, Shape, DType string }
}

func entries(t *testing.T, path string) []entry {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []entry
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return list
}

func TestTraceFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	tr := newTestTracer(t, edgewise.TraceSettings{
		Levels: []string{"TIMESTAMPS", "TENSORS"}, Rate: 1, Count: -1,
		File: path,
	}, Export{})
	start := edgewise.TraceStart{Frontend: "HTTP", Model: edgewise.ModelID{Name: "outer"}, ID: "7\n", Received: time.Now()}
	for range 2 {
		run(t, tr, start)
	}
	list := entries(t, path)
	names := map[uint64]string{}
	var heads, activities []string
	last := int64(0)
	for _, e := range list {
		switch {
		case e.Model != "":
			heads = append(heads, fmt.Sprintf("%d %s %d %q %d", e.ID, e.Model, e.Version, e.Request, e.Parent))
		case e.What != "":
			activities = append(activities, fmt.Sprintf("%s %s %s %s %s", e.What, e.Tensor.Name, e.Tensor.DType, e.Tensor.Shape,
				e.Tensor.Data))
		default:
			names[e.ID] += e.Times[0].Name + " "
			if e.ID == 1 && e.Times[0].NS < last {
				t.Errorf("%s comes before the time before it", e.Times[0].Name)
			}
			last = e.Times[0].NS
		}
	}
	if want := []string{`1 outer 3 "7\n" 0`, `2 inner 3 "" 1`, `3 outer 3 "7\n" 0`, `4 inner 3 "" 3`}; !slices.Equal(heads,
		want) {
		t.Errorf("heads: %v", heads)
	}
	const outer = "HTTP_RECV_START HTTP_RECV_END REQUEST_START QUEUE_START INFER_RESPONSE_COMPLETE REQUEST_END HTTP_SEND_START HTTP_SEND_END "
	const inner = "REQUEST_START QUEUE_START COMPUTE_START COMPUTE_INPUT_END COMPUTE_OUTPUT_START COMPUTE_END " +
		"INFER_RESPONSE_COMPLETE REQUEST_END "
	if names[1] != outer || names[2] != inner || names[3] != outer || names[4] != inner {
		t.Errorf("timestamps: %v", names)
	}
	if want := []string{`TENSOR_QUEUE_INPUT x BYTES 2 "a,\"b",""`, `TENSOR_BACKEND_OUTPUT y FP32 1,2 1,2`}; len(
		activities) != 6 || !slices.Equal(activities[:2], want) {
		t.Errorf("activities: %q", activities)
	}
}

func TestTraceFilesAreNumbered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	tr := newTestTracer(t, edgewise.TraceSettings{
		Levels: []string{"TIMESTAMPS"}, Rate: 1, Count: -1, LogFrequency: 2,
		File: path,
	}, Export{})
	for range 5 {
		run(t, tr, edgewise.TraceStart{Frontend: "GRPC", Model: edgewise.ModelID{Name: "broken"}})
	}
	for i, traces := range []int{2, 2, 1} {
		n := 0
		for _, e := range entries(t, fmt.Sprint(path, ".", i)) {
			if e.Model != "" {
				n++
			}
			if len(e.Times) > 0 && e.Times[0].Name == "INFER_RESPONSE_COMPLETE" {
				t.Error("a request that failed is complete")
			}
		}
		if n != traces {
			t.Errorf("file %d has %d traces, want %d", i, n, traces)
		}
	}
}

// TestCountedTracesHaveFilesOfTheirOwn counts three traces, then two more, beside a model whose traces are not counted.
func TestCountedTracesHaveFilesOfTheirOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	tr := newTestTracer(t, edgewise.TraceSettings{Levels: []string{"TIMESTAMPS"}, Rate: 1, Count: -1, File: path},
		Export{})
	change := func(model string, count int64) {
		if err := tr.Change(model, edgewise.TraceChange{Count: number(count)}); err != nil {
			t.Fatal(err)
		}
	}
	change("m", 3)
	for range 3 {
		run(t, tr, edgewise.TraceStart{Model: edgewise.ModelID{Name: "m"}})
		run(t, tr, edgewise.TraceStart{Model: edgewise.ModelID{Name: "other"}})
	}
	change("m", 2)
	for range 2 {
		run(t, tr, edgewise.TraceStart{Model: edgewise.ModelID{Name: "m"}})
	}
	for name, want := range map[string]int{path: 3, path + ".0": 3, path + ".1": 2} {
		requests := 0
		for _, e := range entries(t, name) {
			if e.Model != "" && e.Parent == 0 {
				requests++
			}
		}
		if requests != want {
			t.Errorf("%s holds %d requests, want %d", filepath.Base(name), requests, want)
		}
	}
}

// TestATraceThatTheDiskCutShortLeavesNothingBehind lets the system cut a write as a full disk does.
func TestATraceThatTheDiskCutShortLeavesNothingBehind(t *testing.T) {
	for _, before := range []int{0, 1} {
		path := filepath.Join(t.TempDir(), "trace")
		tr := newTestTracer(t, edgewise.TraceSettings{Levels: []string{"TIMESTAMPS"}, Rate: 1, Count: -1, File: path},
			Export{})
		for range before {
			run(t, tr, edgewise.TraceStart{Model: edgewise.ModelID{Name: "broken"}})
		}
		size := int64(0)
		if info, err := os.Stat(path); err == nil {
			size = info.Size()
		}
		withFileSize(t, uint64(size)+3000, func() {
			run(t, tr, edgewise.TraceStart{Model: edgewise.ModelID{Name: "broken"}, ID: strings.Repeat("long ", 1000)})
		})
		if before > 0 {
			entries(t, path)
		}
		run(t, tr, edgewise.TraceStart{Model: edgewise.ModelID{Name: "broken"}})
		heads := 0
		for _, e := range entries(t, path) {
			if e.Model != "" {
				heads++
			}
		}
		if heads != before+1 {
			t.Errorf("after %d traces and one that was cut: %d, want %d", before, heads, before+1)
		}
	}
}

// withFileSize runs f while no file of the process can become longer than size.
func withFileSize(t *testing.T, size uint64, f func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

func TestAForeignFileIsNotWrittenTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(path, []byte("my notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, newTestTracer(t, edgewise.TraceSettings{Levels: []string{"TIMESTAMPS"}, Rate: 1, Count: -1, File: path},
		Export{}), edgewise.TraceStart{})
	if data, err := os.ReadFile(path); err != nil || string(data) != "my notes" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

func TestElementsOfEveryType(t *testing.T) {
	for _, test := range []struct {
		typ  edgewise.DataType
		data []byte
		want string
	}{
		{edgewise.Bool, []byte{0, 1}, "false,true"},
		{edgewise.Int8, []byte{255, 1}, "-1,1"},
		{edgewise.Uint8, []byte{255}, "255"},
		{edgewise.Int16, []byte{254, 255}, "-2"},
		{edgewise.Int64, []byte{255, 255, 255, 255, 255, 255, 255, 255}, "-1"},
		{edgewise.Uint64, []byte{255, 255, 255, 255, 255, 255, 255, 255}, "18446744073709551615"},
		{edgewise.FP64, []byte{0, 0, 0, 0, 0, 0, 248, 127}, "NaN"},
		{edgewise.FP16, []byte{0, 60}, "0x3c00"},
		{edgewise.FP32, nil, ""},
		{edgewise.InvalidType, []byte{1}, ""},
	} {
		if got := elements(edgewise.Tensor{Type: test.typ, Data: test.data}); got != test.want {
			t.Errorf("%v: %s, want %s", test.typ, got, test.want)
		}
	}
	n := &traced{}
	n.note("a", []edgewise.Tensor{
		{Type: edgewise.Uint8, Data: make([]byte, maxTracedBytes)},
		{Type: edgewise.Uint8, Data: make([]byte, maxTracedBytes+1)},
	})
	if n.tensors[0].Data == "" || n.tensors[1].Data != "" {
		t.Error("the bound of a tensor's elements is not kept")
	}
}

// exported runs a collector for a while and returns what came.
func exported(t *testing.T, use func(url string)) []*otlp.ResourceSpans {
	t.Helper()
	var mu sync.Mutex
	var all []*otlp.ResourceSpans
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		var b bytes.Buffer
		_, _ = b.ReadFrom(body)
		req := &collectorv1.ExportTraceServiceRequest{}
		if err := proto.Unmarshal(b.Bytes(), req); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, req.ResourceSpans...)
	}))
	defer server.Close()
	use(server.URL + "/v1/traces")
	mu.Lock()
	defer mu.Unlock()
	return all
}

func TestTracesAreExported(t *testing.T) {
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	got := exported(t, func(url string) {
		e := Export{URL: url, Resource: map[string]string{"site": "roof"}, QueueSize: 100, Delay: time.Hour, Batch: 50}
		tr := newTestTracer(t, edgewise.TraceSettings{
			Levels: []string{"TIMESTAMPS", "TENSORS"}, Rate: 0, Count: -1,
			Mode: "opentelemetry",
		}, e)
		if s := tr.Settings(""); s.Options["url"] != url || s.Options["bsp_schedule_delay"] != "3600000" {
			t.Errorf("options: %v", s.Options)
		}
		if tr.Begin(edgewise.TraceStart{}) != nil {
			t.Error("a request without a trace context is traced with rate 0")
		}
		start := edgewise.TraceStart{
			Frontend: "HTTP", Model: edgewise.ModelID{Name: "outer"}, ID: "7", Received: time.Now(),
			Parent: "00-" + id + "-" + parent + "-01",
		}
		if own := tr.Begin(start).Parent(); !strings.HasPrefix(own, "00-"+id+"-") || strings.Contains(own, parent) {
			t.Errorf("traceparent of the answer: %s", own)
		}
		run(t, tr, start)
		start.Model.Name = "broken"
		run(t, tr, start)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := tr.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	byID := map[string]*otlp.Span{}
	var all []*otlp.Span
	for _, r := range got {
		if text := r.Resource.String(); !strings.Contains(text, `"edgewise"`) || !strings.Contains(text, `"roof"`) {
			t.Errorf("resource: %s", text)
		}
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				all, byID[string(s.SpanId)] = append(all, s), s
			}
		}
	}
	var paths []string
	for _, s := range all {
		if fmt.Sprintf("%x", s.TraceId) != id || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("span %s: trace %x, from %d to %d", s.Name, s.TraceId, s.StartTimeUnixNano, s.EndTimeUnixNano)
		}
		path := s.Name
		for up := s; byID[string(up.ParentSpanId)] != nil; {
			up = byID[string(up.ParentSpanId)]
			path = up.Name + "/" + path
		}
		if s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
			path += "!"
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	want := []string{
		"InferRequest", "InferRequest!", "InferRequest/broken!", "InferRequest/outer", "InferRequest/outer/inner",
		"InferRequest/outer/inner/compute", "InferRequest/outer/inner/queue",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("spans: %q, want %q", paths, want)
	}
}

func TestTritonLogLines(t *testing.T) {
	var out bytes.Buffer
	h := NewTritonHandler(&out, false, true)
	logger := slog.New(h).With("part", "http").WithGroup("g")
	logger.Warn("a\nI0520 20:03:25.829575 1 x.cc:1] \"forged\"", "k", "two words", slog.Group("in", "n", 1))
	h.SetISO8601(true)
	logger.Error("b")
	logger.Info("c")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for i, pattern := range []string{
		`^W\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ tracer_test\.go:\d+\] "a\\nI0520 .*\\"forged\\" part=http g\.k=\\"two words\\" g\.in\.n=1"$`,
		`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ E \d+ tracer_test\.go:\d+\] "b part=http"$`,
		`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ I \d+ tracer_test\.go:\d+\] "c part=http"$`,
	} {
		if !regexp.MustCompile(pattern).MatchString(lines[i]) {
			t.Errorf("line %q does not match %s", lines[i], pattern)
		}
	}
}

func TestTritonLogLinesAreWrittenAsTheyAreWithoutEscaping(t *testing.T) {
	var out bytes.Buffer
	slog.New(NewTritonHandler(&out, false, false)).Warn("a \"b\"\nc", "k", "two\nwords")
	if _, text, ok := strings.Cut(out.String(), "] "); !ok || text != "a \"b\"\nc k=two\nwords\n" {
		t.Errorf("got %q", out.String())
	}
}
