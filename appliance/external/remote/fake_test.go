package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// fake is a server over HTTP that echoes, unless a test says otherwise.
type fake struct {
	mu               sync.Mutex // guards what follows
	metadata, config string     // as JSON; config empty: it has no such extension
	infer            http.HandlerFunc

	ready atomic.Bool
	loads atomic.Int32 // loads less unloads, by the repository extension
	asked atomic.Int32 // inferences
}

func newFake() *fake {
	f := &fake{
		metadata: `{"name":"m","versions":["1"],"platform":"p","inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]}],
			"outputs":[{"name":"y","datatype":"FP32","shape":[-1,2]}]}`,
		config: `{"name":"m","max_batch_size":4,"input":[{"name":"x"}]}`,
	}
	f.ready.Store(true)
	f.infer = echo
	return f
}

// set changes what it does while it serves.
func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	metadata, config, infer := f.metadata, f.config, f.infer
	f.mu.Unlock()
	switch path := strings.TrimPrefix(r.URL.Path, "/v2/models/m"); path {
	case "/v2/health/live":
	case "/ready":
		if !f.ready.Load() {
			http.Error(w, `{"error":"it is loading"}`, http.StatusServiceUnavailable)
		}
	case "":
		_, _ = io.WriteString(w, metadata)
	case "/config":
		if config == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, config)
	case "/infer":
		f.asked.Add(1)
		infer(w, r)
	case "/v2/repository/models/m/load":
		f.loads.Add(1)
		f.ready.Store(true)
	case "/v2/repository/models/m/unload":
		f.loads.Add(-1)
		f.ready.Store(false)
	default:
		http.Error(w, `{"error":"there is no such model"}`, http.StatusNotFound)
	}
}

// read reads the inputs of a request.
func read(r *http.Request) (*kserve.InferRequest, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	size := -1
	if text := r.Header.Get(kserve.HeaderLength); text != "" {
		size, _ = strconv.Atoi(text)
	}
	return kserve.NewDecoder(kserve.Limits{}).Infer(edgewise.ModelID{Name: "m"}, body, size)
}

// echo answers x as y.
func echo(w http.ResponseWriter, r *http.Request) {
	req, err := read(r)
	if err != nil {
		http.Error(w, fmt.Sprintf(`{"error":%q}`, err), http.StatusBadRequest)
		return
	}
	out := req.Inputs[0]
	out.Name = "y"
	respond(w, out)
}

// respond answers with an output in binary form.
func respond(w http.ResponseWriter, out ...edgewise.Tensor) {
	var head struct {
		Model   string           `json:"model_name"`
		Outputs []map[string]any `json:"outputs"`
	}
	var rest []byte
	for _, t := range out {
		head.Outputs = append(head.Outputs, map[string]any{
			"name": t.Name, "datatype": t.Type.String(), "shape": t.Shape,
			"parameters": map[string]any{"binary_data_size": len(t.Data)},
		})
		rest = append(rest, t.Data...)
	}
	text, _ := json.Marshal(head)
	w.Header().Set(kserve.HeaderLength, strconv.Itoa(len(text)))
	_, _ = w.Write(append(text, rest...))
}

// listen serves a handler on a socket, until the test or the function ends.
func listen(t testing.TB, path string, h http.Handler) (end func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	end = func() { _ = s.Close() }
	t.Cleanup(end)
	return end
}

// socket is the path of one, which is short.
func socket(t testing.TB) string { return filepath.Join(t.TempDir(), "s") }

// config is that of a server that is asked often.
func config(t testing.TB, address string) Config {
	t.Helper()
	a, err := ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Address: a, MaxRequest: 1 << 20, MaxAnswer: 1 << 20, LoadTimeout: time.Minute, Interval: 10 * time.Millisecond,
		Restarts: child.Restarts{FirstBackOff: time.Millisecond, LastBackOff: 10 * time.Millisecond},
		Logger:   slog.New(slog.DiscardHandler),
	}
}

// version is one that the fake serves.
func version(change ...func(*edgewise.Model)) *edgewise.Version {
	m := &edgewise.Model{
		Name: "m", Platform: "other", Backend: "other", MaxBatchSize: 4,
		Input:  []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{2}}},
		Output: []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32, Dims: edgewise.Shape{2}}},
	}
	for _, c := range change {
		c(m)
	}
	return &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 3}, Model: m}
}

// open opens an instance for a test.
func open(t testing.TB, c Config, v *edgewise.Version) *Instance {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	i, err := s.Open(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Close() })
	return i
}

// outcome is how a call was answered.
type outcome struct {
	outputs []edgewise.Tensor
	last    bool
	err     error
}

// call makes a call of one row of two numbers.
func call(ctx context.Context, id byte, out chan outcome) *edgewise.Call {
	return &edgewise.Call{
		Context: ctx, Want: []string{"y"},
		Request: &edgewise.Request{Inputs: []edgewise.Tensor{
			{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 2}, Data: []byte{id, 0, 0, 0, 0, 0, 0, id}},
		}},
		Answer: func(r *edgewise.Result, last bool, err error) error {
			o := outcome{last: last, err: err}
			if r != nil {
				o.outputs = r.Outputs
			}
			out <- o
			return nil
		},
	}
}

// ask has an instance answer one call.
func ask(ctx context.Context, i *Instance, id byte) outcome {
	out := make(chan outcome, 100)
	if err := i.Answer(ctx, []*edgewise.Call{call(ctx, id, out)}); err != nil {
		return outcome{err: err, last: true}
	}
	return <-out
}

// until waits until a condition holds.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(end) {
			t.Fatal("it did not come: " + what)
		}
		time.Sleep(time.Millisecond)
	}
}
