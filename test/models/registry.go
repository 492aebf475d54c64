package models

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/cache"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/serving"
	"github.com/edgewise-ai/edgewise/store"
	"github.com/edgewise-ai/edgewise/store/documents"
)

// Memory is what all models of a Registry may take together. Those of Echo take nothing unless they say so.
const Memory = 100

// NoGPUs is a machine without a GPU.
type NoGPUs struct{}

// Usable returns why there is none.
func (NoGPUs) Usable() ([]edgewise.DeviceInfo, error) {
	return nil, errors.New("there is none in this test")
}

// Slowed returns "".
func (NoGPUs) Slowed(edgewise.Device) string { return "" }

// Identity describes no hardware.
func (NoGPUs) Identity() []string { return nil }

// Registry is a registry on a real store whose models are served.
type Registry struct {
	*registry.Registry
	T         *testing.T
	Documents *documents.Documents
	Store     *store.Store
	Manager   *manager.Manager
	Backend   *Echo
	Answers   *cache.Cache                    // of models that ask for it
	Unproved  func(id edgewise.ModelID) error // why a loaded version may not go live; nil: all may
	serving   *serving.Loader
}

// Infer answers by the present manager.
func (r *Registry) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	return r.Manager.Infer(ctx, req)
}

// New makes a Registry with a cache of a number of bytes for answers. It is closed with the test, which fails when an
// instance was not.
func New(t *testing.T, cached int64) *Registry {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.TempDir(), store.Options{SnapshotEvery: -1, MaxUploads: 32, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := documents.Open(t.TempDir(), documents.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	r := &Registry{T: t, Store: s, Documents: documents, Backend: &Echo{}, Answers: cache.New(cached)}
	r.serving = serving.New(serving.Config{
		Backends: []edgewise.Backend{r.Backend}, Defaults: modelconfig.Defaults{Formats: Formats()}, Devices: NoGPUs{},
		CoreCount: 4, Cores: cores.New(4), Cache: r.Answers, MaxQueue: 100,
		Infer: r, Independent: func(id edgewise.ModelID) bool { return r.Manager.Independent(id) }, Logger: logger,
	})
	r.open()
	t.Cleanup(func() {
		if err := errors.Join(r.Manager.Close(context.Background()), s.Close(), documents.Close()); err != nil {
			t.Error(err)
		}
		if n := r.Backend.Loaded.Load(); n != 0 {
			t.Errorf("%d instances were never closed", n)
		}
	})
	return r
}

// open begins to serve what is stored.
func (r *Registry) open() {
	logger := slog.New(slog.DiscardHandler)
	r.Manager = manager.New(manager.Config{
		Load:      func(ctx context.Context, v *edgewise.Version) (*manager.Loaded, error) { return r.LoadVersion(ctx, v) },
		Footprint: func(ctx context.Context, v *edgewise.Version) (manager.Footprint, error) { return r.Footprint(ctx, v) },
		Replaces:  r.serving.Replaces, Memory: Memory, Concurrency: 2, Logger: logger,
	})
	r.Registry = registry.New(registry.Config{
		Store: r.Store, Serving: r.serving, Manager: r.Manager, Documents: r.Documents, Logger: logger,
		Prove: func(_ context.Context, id edgewise.ModelID) error {
			if r.Unproved == nil {
				return nil
			}
			return r.Unproved(id)
		},
	})
}

// Restart unloads everything and begins again with what is stored.
func (r *Registry) Restart() {
	r.T.Helper()
	r.Must(r.Manager.Close(r.T.Context()))
	r.open()
	r.Start()
}

// PushFile uploads a version of one file with that content.
func (r *Registry) PushFile(name, content string, version int64, promote bool) (*admin.Pushed, error) {
	up := Upload(name, File{"model.onnx", content})
	up.Version = version
	return r.Push(r.T.Context(), up, promote)
}

// Ask returns what a model answers, or the kind of the error.
func (r *Registry) Ask(name string) string {
	return r.AskBoth(edgewise.ModelID{Name: name})
}

// WantAnswer checks what a model answers.
func (r *Registry) WantAnswer(name, want string) {
	r.T.Helper()
	if got := r.Ask(name); got != want {
		r.T.Errorf("model %q answers %q, want %q", name, got, want)
	}
}

// Both is an ensemble that asks "a" and then "b", and answers with what both say.
const Both = `platform: "ensemble"
input { name: "in" data_type: TYPE_STRING dims: 1 }
output { name: "first" data_type: TYPE_STRING dims: 1 }
output { name: "second" data_type: TYPE_STRING dims: 1 }
ensemble_scheduling {
  step { model_name: "a" model_version: -1 input_map { key: "in" value: "in" } output_map { key: "out" value: "first" } }
  step { model_name: "b" model_version: -1 input_map { key: "in" value: "first" } output_map { key: "out" value: "second" } }
}`

// PushEnsemble uploads an ensemble and makes it live.
func (r *Registry) PushEnsemble(name, config string) (*admin.Pushed, error) {
	return r.Push(r.T.Context(), Upload(name, File{"config.pbtxt", config}), true)
}

// PushBoth uploads "a" and "b", which answer "a1" and "b1", and the ensemble Both as "E".
func (r *Registry) PushBoth() {
	r.T.Helper()
	for _, name := range []string{"a", "b"} {
		_, err := r.PushFile(name, name+"1", 0, true)
		r.Must(err)
	}
	_, err := r.PushEnsemble("E", Both)
	r.Must(err)
}

// AskBoth returns the texts that a model answers, or the kind of the error.
func (r *Registry) AskBoth(id edgewise.ModelID) string {
	in := edgewise.Tensor{Name: "in", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, "?")}
	resp, err := r.Infer(r.T.Context(), &edgewise.Request{Model: id, Inputs: []edgewise.Tensor{in}})
	if err != nil {
		return edgewise.KindOf(err).String()
	}
	defer resp.Release()
	var texts []string
	for _, out := range resp.Outputs {
		for element := range edgewise.Elements(out.Data) {
			texts = append(texts, string(element))
		}
	}
	return strings.Join(texts, " ")
}

// WantBoth checks what the ensemble "E" answers.
func (r *Registry) WantBoth(want string) {
	r.T.Helper()
	if got := r.AskBoth(edgewise.ModelID{Name: "E"}); got != want {
		r.T.Errorf("the ensemble answers %q, want %q", got, want)
	}
}

// WantRefusal checks an error.
func (r *Registry) WantRefusal(err error, kind edgewise.Kind, want string) {
	r.T.Helper()
	if err == nil || edgewise.KindOf(err) != kind || err.Error() != want {
		r.T.Errorf("got %v, want %s (%v)", err, want, kind)
	}
}

// Must ends the test at an error.
func (r *Registry) Must(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
}

// Numbers lists the versions of a model that are stored.
func (r *Registry) Numbers(name string) (list []int64) {
	r.T.Helper()
	record, err := r.Store.Record(name)
	r.Must(err)
	for _, v := range record.Versions {
		list = append(list, v.ID.Version)
	}
	return list
}
