package differential

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/runner"
	"github.com/edgewise-ai/edgewise/gpu/onnx"
	"github.com/edgewise-ai/edgewise/test/real"
)

const childVerb = "differential-child"

// TestMain lets the test binary be its own child.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childVerb {
		os.Exit(runner.Serve(func(s runner.Start) (edgewise.Backend, error) {
			var library string
			err := json.Unmarshal(s.Options, &library)
			return bundles{backend(library)}, err
		}))
	}
	os.Exit(m.Run())
}

func backend(library string) *onnx.Backend {
	return onnx.New(onnx.Config{Library: library, Cores: 1, Logger: slog.New(slog.DiscardHandler)})
}

// number is the input that says which model of a bundle is meant.
const number = "#"

// bundles loads many models as one version, so that they share a process and its memory.
type bundles struct{ edgewise.Backend }

// Load loads the models in the folders 0, 1, 2 ... of dir.
func (b bundles) Load(ctx context.Context, v *edgewise.Version, dir string, on edgewise.Device) (edgewise.Instance, error) {
	var all bundle
	for {
		folder := filepath.Join(dir, fmt.Sprint(len(all)))
		if _, err := os.Stat(folder); err != nil {
			return all, nil
		}
		i, err := b.Backend.Load(ctx, v, folder, on)
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
}

// bundle is the models in the child.
type bundle []edgewise.Instance

// Run runs the model that is meant, with memory that is full of poison.
func (b bundle) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	at := slices.IndexFunc(in, func(t edgewise.Tensor) bool { return t.Name == number })
	model, place := b[binary.LittleEndian.Uint64(in[at].Data)], options.Place
	options.Place = func(sizes []int64) [][]byte {
		memory := place(sizes)
		for _, m := range memory {
			for i := range m {
				m[i] = 0xA5
			}
		}
		return memory
	}
	return model.Run(ctx, slices.Delete(slices.Clone(in), at, at+1), want, options)
}

func (b bundle) Close() error { return nil }

// member is one model of a bundle, in this process.
type member struct {
	*runner.Instance
	index uint64
}

func (m member) Run(ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions) (*edgewise.Result, error) {
	which := edgewise.Tensor{
		Name: number, Type: edgewise.Int64, Shape: edgewise.Shape{1},
		Data: binary.LittleEndian.AppendUint64(nil, m.index),
	}
	return m.Instance.Run(ctx, append(slices.Clone(in), which), want, options)
}

// Close leaves the process to the others.
func (member) Close() error { return nil }

// child starts a process with the models in the folders of dir.
func child(t testing.TB, dir string) *runner.Instance {
	t.Helper()
	library := real.Library(t)
	outside := runner.New(runner.Config{
		Backend: backend(library), Arguments: []string{childVerb}, Options: library, Environment: []string{"ORT_DISABLE_TELEMETRY=1"},
		ReadPaths: []string{library}, Logger: slog.New(slog.DiscardHandler),
	})
	v := &edgewise.Version{ID: edgewise.ModelID{Name: "bundle", Version: 1}, Model: &edgewise.Model{Name: "bundle", Platform: onnx.Platform}}
	i, err := outside.Load(t.Context(), v, dir, edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	return i.(*runner.Instance)
}
