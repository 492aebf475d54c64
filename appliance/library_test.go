package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/cache"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/store"
)

// echo is a backend whose models answer with the content of their file, "x" excepted: that one does not load.
type echo struct {
	loads  atomic.Int64                          // that went well
	loaded atomic.Int64                          // instances that have not been closed
	hook   func(stage, content string) error     // called at "load" and "run", unless nil; set before the first use
	wrap   func(*echoInstance) edgewise.Instance // what an instance is, unless nil
}

func (e *echo) at(stage, content string) error {
	if e.hook == nil {
		return nil
	}
	return e.hook(stage, content)
}

func (*echo) Platform() string { return "onnxruntime_onnx" }

func (*echo) Inspect(context.Context, string, *edgewise.Model) (*edgewise.Inspection, error) {
	return &edgewise.Inspection{
		Inputs:  []edgewise.TensorInfo{{Name: "in", Type: edgewise.Bytes, Shape: edgewise.Shape{1}}},
		Outputs: []edgewise.TensorInfo{{Name: "out", Type: edgewise.Bytes, Shape: edgewise.Shape{1}}},
	}, nil
}

func (e *echo) Load(_ context.Context, v *edgewise.Version, dir string, _ edgewise.Device) (edgewise.Instance, error) {
	data, err := os.ReadFile(filepath.Join(dir, "model.onnx"))
	if err != nil {
		return nil, err
	}
	if string(data) == "x" {
		return nil, edgewise.Errorf("echo.Load", edgewise.Invalid, "broken on purpose")
	}
	if err := e.at("load", string(data)); err != nil {
		return nil, err
	}
	e.loads.Add(1)
	e.loaded.Add(1)
	i := &echoInstance{e, string(data)}
	if e.wrap != nil {
		return e.wrap(i), nil
	}
	return i, nil
}

type echoInstance struct {
	backend *echo
	content string
}

func (i *echoInstance) Run(context.Context, []edgewise.Tensor, []string) (*edgewise.Result, error) {
	if err := i.backend.at("run", i.content); err != nil {
		return nil, err
	}
	out := edgewise.Tensor{Name: "out", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, i.content)}
	return &edgewise.Result{Outputs: []edgewise.Tensor{out}, Free: func() {}}, nil
}

func (i *echoInstance) Close() error {
	i.backend.loaded.Add(-1)
	return nil
}

// houseMemory is what all models of a house may take together. Those of echo take nothing unless they say so.
const houseMemory = 100

// house is a library on a real store, without a door.
type house struct {
	*library
	t       *testing.T
	backend *echo
	answers *cache.Cache // of models that ask for it
}

// noGPUs is a machine without a GPU.
type noGPUs struct{}

func (noGPUs) Usable() ([]edgewise.DeviceInfo, error) {
	return nil, errors.New("there is none in this test")
}

func (noGPUs) Slowed(edgewise.Device) string { return "" }

func newHouse(t *testing.T) *house { return newHouseWith(t, 1<<20) }

// newHouseWith makes a house whose cache of answers has a number of bytes.
func newHouseWith(t *testing.T, cached int64) *house {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.TempDir(), store.Options{SnapshotEvery: -1, MaxUploads: 32, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := store.OpenDocuments(t.TempDir(), store.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	backend := &echo{}
	l := &library{failed: failedLoads{notes{documents, failedBucket}, logger}, store: s, locks: newLocks(), logger: logger, config: libraryConfig{MaxQueue: 100, CoreCount: 4}}
	answers := cache.New(cached)
	l.serving = serving.New(serving.Config{
		Backends: []edgewise.Backend{backend}, Devices: noGPUs{}, CoreCount: 4, Cores: cores.New(4), Cache: answers, MaxQueue: 100,
		Infer: inferer(func() edgewise.Inferer { return l.manager }), Independent: l.independent, Logger: logger,
	})
	l.sources = newSources(l, config.Repository{}, logger)
	l.manager = manager.New(manager.Config{Load: l.load, Replaces: serving.Replaces, Footprint: l.footprint, Memory: houseMemory, Concurrency: 2, Logger: logger})
	t.Cleanup(func() {
		if err := errors.Join(l.manager.Close(context.Background()), s.Close(), documents.Close()); err != nil {
			t.Error(err)
		}
		if n := backend.loaded.Load(); n != 0 {
			t.Errorf("%d instances were never closed", n)
		}
		if len(l.locks.held) != 0 {
			t.Errorf("locks left behind: %v", l.locks.held)
		}
	})
	return &house{l, t, backend, answers}
}

// push uploads a version of one file with that content.
func (h *house) push(name, content string, version int64, promote bool) (*admin.Pushed, error) {
	up := uploadOf(name, struct{ path, content string }{"model.onnx", content})
	up.Version = version
	return h.Push(h.t.Context(), up, promote)
}

func uploadOf(name string, files ...struct{ path, content string }) edgewise.Upload {
	return edgewise.Upload{Model: name, Size: -1, Next: func() (string, int64, io.Reader, error) {
		if len(files) == 0 {
			return "", 0, nil, io.EOF
		}
		f := files[0]
		files = files[1:]
		return f.path, int64(len(f.content)), strings.NewReader(f.content), nil
	}}
}

// ask returns what a model answers, or the kind of the error.
func (h *house) ask(name string) string {
	in := edgewise.Tensor{Name: "in", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, "?")}
	r, err := h.manager.Infer(h.t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: name}, Inputs: []edgewise.Tensor{in}})
	if err != nil {
		return edgewise.KindOf(err).String()
	}
	defer r.Release()
	for element := range edgewise.Elements(r.Outputs[0].Data) {
		return string(element)
	}
	return ""
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) wantAnswer(name, want string) {
	h.t.Helper()
	if got := h.ask(name); got != want {
		h.t.Errorf("model %q answers %q, want %q", name, got, want)
	}
}

func TestPushPromoteRollback(t *testing.T) {
	h := newHouse(t)
	for i, content := range []string{"one", "two", "three"} {
		v, err := h.push("m", content, 0, true)
		h.must(err)
		if v.ID.Version != int64(i+1) {
			t.Errorf("version %d, want %d", v.ID.Version, i+1)
		}
		h.wantAnswer("m", content)
	}
	for _, want := range []string{"two", "one"} {
		_, err := h.Rollback(t.Context(), "m", "live")
		h.must(err)
		h.wantAnswer("m", want)
	}
	if _, err := h.Rollback(t.Context(), "m", "live"); err == nil || edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("a rollback beyond the first version: %v", err)
	}
	_, err := h.SetLabel(t.Context(), "m", "live", 3)
	h.must(err)
	h.wantAnswer("m", "three")
	h.must(h.manager.Settle(t.Context(), "m"))
	if n := h.backend.loaded.Load(); n != 1 {
		t.Errorf("%d versions are loaded, want the live one", n)
	}
}

func TestABrokenVersionIsStoredAndNeverLive(t *testing.T) {
	h := newHouse(t)
	_, err := h.push("m", "good", 0, true)
	h.must(err)
	v, err := h.push("m", "x", 0, true)
	want := `model "m" version 2 is stored but was not made live: load failed for model 'm': version 2 is at UNAVAILABLE state: broken on purpose;`
	if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.Invalid || v.ID.Version != 2 {
		t.Errorf("got %v, want %s", err, want)
	}
	h.wantAnswer("m", "good")
	if _, err := h.SetLabel(t.Context(), "m", "live", 2); err == nil {
		t.Error("a broken version was made live")
	}
	h.wantAnswer("m", "good")
	if !h.manager.Ready() {
		t.Error("the box is not ready because of a version that nobody serves")
	}
}

func TestLabelsOfVersionsThatAreNotThere(t *testing.T) {
	h := newHouse(t)
	_, err := h.push("m", "one", 0, false)
	h.must(err)
	h.wantAnswer("m", "not_found")
	for _, test := range []struct {
		name, label string
		version     int64
		kind        edgewise.Kind
	}{
		{"m", "live", 7, edgewise.NotFound},
		{"nobody", "live", 1, edgewise.NotFound},
		{"m", "7", 1, edgewise.Invalid},
	} {
		if _, err := h.SetLabel(t.Context(), test.name, test.label, test.version); err == nil || edgewise.KindOf(err) != test.kind {
			t.Errorf("label %q of %q to %d: %v, want %v", test.label, test.name, test.version, err, test.kind)
		}
	}
}

func TestLoadWithoutALiveVersionTakesTheHighest(t *testing.T) {
	h := newHouse(t)
	for _, content := range []string{"one", "two"} {
		_, err := h.push("m", content, 0, false)
		h.must(err)
	}
	h.must(h.Load(t.Context(), "m"))
	h.wantAnswer("m", "two")
	h.must(h.Unload(t.Context(), "m"))
	h.wantAnswer("m", "not_found")
	h.must(h.Load(t.Context(), "m"))
	h.wantAnswer("m", "two")
	if err := h.Load(t.Context(), "nobody"); err == nil || edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("loading a model that is not there: %v", err)
	}
}

// TestADeletedModelNeverAnswersForItsSuccessor gives a new model the name of a deleted one while the old is in use.
func TestADeletedModelNeverAnswersForItsSuccessor(t *testing.T) {
	h := newHouse(t)
	for i := range 10 {
		content := fmt.Sprint("content ", i)
		_, err := h.push("m", content, 0, true)
		h.must(err)
		h.wantAnswer("m", content)
		h.must(h.DeleteModel(t.Context(), "m"))
		h.wantAnswer("m", "not_found")
	}
}

func TestDeleteVersion(t *testing.T) {
	h := newHouse(t)
	for _, content := range []string{"one", "two"} {
		_, err := h.push("m", content, 0, true)
		h.must(err)
	}
	if err := h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "m", Version: 2}); err == nil || edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("deleting the live version: %v", err)
	}
	h.must(h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "m", Version: 1}))
	if _, err := h.Rollback(t.Context(), "m", "live"); err == nil || edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("rolling back to a deleted version: %v", err)
	}
	h.wantAnswer("m", "two")
}

func TestOneOfTwoUploadsOfAVersionWins(t *testing.T) {
	h := newHouse(t)
	var won, lost atomic.Int64
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			_, err := h.push("m", fmt.Sprint("content ", i), 5, true)
			switch {
			case err == nil:
				won.Add(1)
			case edgewise.KindOf(err) == edgewise.Exists:
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if won.Load() != 1 || lost.Load() != 7 {
		t.Errorf("%d uploads of one version won, %d lost", won.Load(), lost.Load())
	}
}

// TestEverythingAtOnce changes one model from many sides while others ask it: every answer is a content that was
// pushed, and at the end what is stored and what answers agree.
func TestEverythingAtOnce(t *testing.T) {
	h := newHouse(t)
	_, err := h.push("m", "v1", 1, true)
	h.must(err)
	stop := make(chan struct{})
	var clients, changers sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := h.ask("m"); !strings.HasPrefix(got, "v") {
					t.Errorf("answered %q", got)
				}
			}
		})
	}
	expected := map[edgewise.Kind]bool{edgewise.Conflict: true, edgewise.NotFound: true, edgewise.Invalid: true, edgewise.Unavailable: true}
	for side := range 4 {
		changers.Go(func() {
			for round := range 10 {
				var err error
				switch (side + round) % 4 {
				case 0:
					_, err = h.push("m", fmt.Sprintf("v%d.%d", side, round), 0, true)
				case 1:
					_, err = h.Rollback(t.Context(), "m", "live")
				case 2:
					_, err = h.push("m", "x", 0, true)
				case 3:
					err = h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "m", Version: int64(round)})
				}
				if err != nil && !expected[edgewise.KindOf(err)] {
					t.Errorf("side %d round %d: %v", side, round, err)
				}
			}
		})
	}
	changers.Wait()
	close(stop)
	clients.Wait()
	h.must(h.manager.Settle(t.Context(), "m"))
	record, err := h.Record("m")
	h.must(err)
	v, _, err := h.manager.Version(edgewise.ModelID{Name: "m"})
	h.must(err)
	if live := record.Label("live"); v.ID.Version != live {
		t.Errorf("version %d answers, live is %d", v.ID.Version, live)
	}
}

func TestUploadsWithoutSense(t *testing.T) {
	h := newHouse(t)
	if _, err := h.push("../m", "x", 0, true); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("a bad name: %v", err)
	}
	none := edgewise.Upload{Model: "m", Size: -1, Next: func() (string, int64, io.Reader, error) { return "", 0, nil, io.EOF }}
	if _, err := h.Push(t.Context(), none, true); err == nil || err.Error() != `model "m": the upload holds no file` {
		t.Errorf("an empty upload: %v", err)
	}
	if len(h.Records()) != 0 {
		t.Errorf("stored: %v", h.Records())
	}
}
