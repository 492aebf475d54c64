package external

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/api/backend/conformance"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/test/backends/faulty"
)

// TestMain is the launcher, or a backend, when this program is started as one.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 2 && os.Args[1] == child.LaunchVerb:
		os.Exit(child.RunLaunch())
	case len(os.Args) == 3 && os.Args[1] == "backend":
		os.Exit(beBackend(os.Args[2]))
	}
	os.Exit(m.Run())
}

// beBackend is a backend that does what a test asks for.
func beBackend(do string) int {
	serve := func() error { return faulty.Run(do) }
	if do == "reference" {
		serve = func() error { return backend.Serve(conformance.Load) }
	}
	if do == "placed" {
		serve = func() error { return backend.Serve(noting) }
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// manifest is that of a backend that does something.
func manifest(t testing.TB, do string) *Manifest {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "fake")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	// With the race detector the program would sleep for a second when it ends.
	text := fmt.Sprintf("protocol: 1\ncommand: [%q, backend, %s]\nfile: model.txt\ncomplete: true\n"+
		"environment: {GORACE: atexit_sleep_ms=0}\n%s", program, do, faulty.Keys(do))
	if err := os.WriteFile(filepath.Join(folder, ManifestFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := ReadManifest(folder)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// logBuffer collects a log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// config configures a backend for a test, which restarts its processes quickly.
func config(t testing.TB, m *Manifest) (Config, *logBuffer) {
	log := &logBuffer{}
	return Config{
		Manifests: []*Manifest{m}, Folder: t.TempDir(), Metrics: NewMetrics(), Logger: slog.New(slog.NewTextHandler(log, nil)),
		Restarts: child.Restarts{FirstBackOff: time.Millisecond, LastBackOff: 20 * time.Millisecond},
	}, log
}

// version is one of the conformance model.
func version(decoupled bool, instances int32) *edgewise.Version {
	m := &edgewise.Model{
		Name: "x", Platform: "fake", Backend: "fake", MaxBatchSize: 8,
		Input: []edgewise.ModelInput{
			{Name: "X", DataType: edgewise.FP32, Dims: edgewise.Shape{-1}, Optional: true},
			{Name: "S", DataType: edgewise.Bytes, Dims: edgewise.Shape{-1}, Optional: true},
		},
		Output: []edgewise.ModelOutput{
			{Name: "Y", DataType: edgewise.FP32, Dims: edgewise.Shape{-1}},
			{Name: "T", DataType: edgewise.Bytes, Dims: edgewise.Shape{-1}},
		},
		InstanceGroup: []edgewise.InstanceGroup{{Name: "x_0", Kind: edgewise.KindCPU, Count: instances}},
	}
	if decoupled {
		m.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
	}
	return &edgewise.Version{ID: edgewise.ModelID{Name: "x", Version: 3}, Model: m}
}

// load loads a version for a test.
func load(t testing.TB, c Config, v *edgewise.Version) *Instance {
	t.Helper()
	i, err := New(c).Load(t.Context(), v, t.TempDir(), edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i.(*Instance)
}

// answer is one answer to a call.
type answer struct {
	outputs    map[string][]byte
	parameters map[string]any
	last       bool
	err        error
	free       func() // frees the outputs; nil where the call does not keep them
}

// asked is a call, and its answers.
type asked struct {
	*edgewise.Call
	answers chan answer
	cancel  context.CancelFunc
	keeps   bool // outputs stay in the memory of the process until the receiver of the answer frees them
}

// ask makes a call with one number.
func ask(t testing.TB, parameters map[string]any, x ...byte) *asked {
	ctx, cancel := context.WithCancel(t.Context())
	a := &asked{answers: make(chan answer, 1<<15), cancel: cancel}
	if len(x) == 0 {
		x = binary.LittleEndian.AppendUint32(nil, 7)
	}
	a.Call = &edgewise.Call{
		Context: ctx, Want: []string{"Y", "T"},
		Request: &edgewise.Request{
			ID: "id", Parameters: parameters,
			Inputs: []edgewise.Tensor{
				{Name: "X", Type: edgewise.FP32, Shape: edgewise.Shape{1, int64(len(x) / 4)}, Data: x},
			},
		},
		Answer: func(r *edgewise.Result, last bool, err error) error {
			got := answer{last: last, err: err, outputs: map[string][]byte{}}
			if r != nil {
				for _, o := range r.Outputs {
					got.outputs[o.Name] = bytes.Clone(o.Data)
				}
				got.parameters = r.Parameters
				if a.keeps {
					got.free = r.Free
				} else {
					r.Free()
				}
			}
			a.answers <- got
			return nil
		},
	}
	return a
}

// send sends one call and returns its only answer.
func send(t testing.TB, i *Instance, a *asked) answer {
	t.Helper()
	if err := i.Answer(a.Context, []*edgewise.Call{a.Call}); err != nil {
		return answer{err: err, last: true}
	}
	return next(t, a)
}

func next(t testing.TB, a *asked) answer {
	t.Helper()
	select {
	case got := <-a.answers:
		return got
	case <-time.After(time.Minute):
		t.Fatal("no answer came")
		return answer{}
	}
}
