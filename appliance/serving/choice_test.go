package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/scalar"
)

// simulated is a device in virtual time.
type simulated struct {
	row     time.Duration // of a run, for each row
	off     float64       // by how much its answers are wrong
	hangs   bool          // its loads take for ever
	refuses error         // of its loads
	shy     bool          // it fails on numbers below 0
}

// bench is a machine with simulated devices, and the backend that loads versions there.
type bench struct {
	runtime string
	cpu     simulated
	gpus    []edgewise.DeviceInfo
	by      map[edgewise.Device]simulated

	mu    sync.Mutex
	loads []string
	open  int
	notes map[edgewise.ModelID]string
}

func (w *bench) Usable() ([]edgewise.DeviceInfo, error) {
	if len(w.gpus) == 0 {
		return nil, errors.New("there is no GPU")
	}
	return w.gpus, nil
}

func (*bench) Slowed(edgewise.Device) string { return "" }

func (w *bench) Identity() []string { return []string{"a processor", w.runtime} }

func (w *bench) Get(id edgewise.ModelID) string { return w.notes[id] }

func (w *bench) Set(id edgewise.ModelID, text string) error {
	w.notes[id] = text
	return nil
}

func (*bench) Formats() []edgewise.Format {
	return []edgewise.Format{{
		Platform: "onnxruntime_onnx", Devices: []edgewise.DeviceKind{edgewise.CPU, edgewise.GPU}, Untried: true,
	}}
}

func (*bench) Inspect(context.Context, string, *edgewise.Model) (*edgewise.Inspection, error) {
	return &edgewise.Inspection{ParameterBytes: 1 << 20}, nil
}

func (w *bench) Load(ctx context.Context, v *edgewise.Version, _ string, on edgewise.Device) (edgewise.Instance, error) {
	d, gpu := w.by[on]
	if !gpu {
		d = w.cpu
	}
	w.mu.Lock()
	w.loads = append(w.loads, fmt.Sprintf("%v x %d", on, v.Model.InstanceGroup[0].Count))
	w.mu.Unlock()
	if d.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if d.refuses != nil {
		return nil, d.refuses
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	return &working{simulated: d, bench: w}, nil
}

type working struct {
	counted
	simulated
	bench *bench
}

func (w *working) Run(ctx context.Context, in []edgewise.Tensor, _ []string, _ edgewise.RunOptions) (*edgewise.Result, error) {
	for at := 0; w.shy && at < len(in[0].Data); at += 4 {
		if scalar.Float(edgewise.FP32, in[0].Data[at:]) < 0 {
			return nil, errors.New("a number below 0")
		}
	}
	select {
	case <-time.After(w.row * time.Duration(in[0].Shape[0])):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := edgewise.Tensor{Name: "y", Type: edgewise.FP32, Shape: in[0].Shape}
	for range len(in[0].Data) / 4 {
		out.Data = scalar.AppendFloat(out.Data, edgewise.FP32, 1+w.off)
	}
	return &edgewise.Result{Outputs: []edgewise.Tensor{out}, Free: func() {}}, nil
}

func (w *working) Close() error {
	w.bench.mu.Lock()
	defer w.bench.mu.Unlock()
	w.bench.open--
	return nil
}

func device(index int, description string) edgewise.DeviceInfo {
	return edgewise.DeviceInfo{
		Device: edgewise.Device{Kind: edgewise.GPU, Index: index}, Description: description, Driver: "1.0", Budget: 8 << 30,
	}
}

func newBench(cpu simulated, gpus ...simulated) *bench {
	w := &bench{
		runtime: "ONNX Runtime 1", cpu: cpu, by: map[edgewise.Device]simulated{}, notes: map[edgewise.ModelID]string{},
	}
	for i, g := range gpus {
		w.gpus = append(w.gpus, device(i, fmt.Sprintf("card %d", i)))
		w.by[w.gpus[i].Device] = g
	}
	return w
}

func (w *bench) loader() *Loader {
	return New(Config{
		Backends: []edgewise.Backend{w}, Devices: w, Defaults: modelconfig.Defaults{InstanceCount: 4}, CoreCount: 4,
		Cores: cores.New(4), MaxQueue: 10, Logger: slog.New(slog.DiscardHandler),
		Trial: TrialConfig{Limit: 20 * time.Second, Findings: w},
	})
}

func openVersion(kind edgewise.InstanceKind) *edgewise.Version {
	return &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: &edgewise.Model{
		Name: "m", Platform: "onnxruntime_onnx", MaxBatchSize: 8,
		Input:         []edgewise.ModelInput{{Name: "x", DataType: edgewise.FP32, Dims: edgewise.Shape{2}}},
		Output:        []edgewise.ModelOutput{{Name: "y", DataType: edgewise.FP32, Dims: edgewise.Shape{2}}},
		InstanceGroup: []edgewise.InstanceGroup{{Name: "m_0", Kind: kind, Count: 1}},
	}}
}

// load loads a version, unloads it, and returns what was measured and which devices were loaded on.
func (w *bench) load(t *testing.T, l *Loader, v *edgewise.Version) (found *admin.Choice, loads string, err error) {
	t.Helper()
	w.loads = nil
	declared := *v.Model
	declared.InstanceGroup = nil
	loaded, err := l.Load(t.Context(), v, t.TempDir(), &declared)
	if err == nil {
		if w.open != max(len(w.gpus), 1) && w.open != 1 {
			t.Errorf("%d instances are loaded", w.open)
		}
		if err := loaded.Close(); err != nil {
			t.Error(err)
		}
	}
	if w.open != 0 || len(l.memory.taken) != 0 {
		t.Errorf("%d instances and %d shares of memory are left", w.open, len(l.memory.taken))
	}
	return l.Choice(v.ID), strings.Join(w.loads, ", "), err
}

const slow, fast = 8 * time.Millisecond, 2 * time.Millisecond

func TestAVersionThatLeavesTheKindOpenServesFromTheFasterDevice(t *testing.T) {
	for _, test := range []struct {
		name   string
		cpu    simulated
		gpus   []simulated
		device string
		state  string // of the GPU
		reason string
		loads  string
	}{
		{"a fast GPU", simulated{row: slow}, []simulated{{row: fast}}, "gpu:0", "chosen", "", "cpu x 4, gpu:0 x 1"},
		{"a slow GPU", simulated{row: fast}, []simulated{{row: slow}}, "cpu", "slower", "", "cpu x 4, gpu:0 x 1"},
		{
			"a wrong GPU",
			simulated{row: slow},
			[]simulated{{row: fast, off: 0.5}},
			"cpu", "wrong",
			`output "y" differs by up to 0.5, and 0.003 is allowed`, "cpu x 4, gpu:0 x 1",
		},
		{
			"a GPU that hangs",
			simulated{row: slow},
			[]simulated{{hangs: true}},
			"cpu", "failed", "it took longer than 20s",
			"cpu x 4, gpu:0 x 1",
		},
		{
			"a GPU without memory",
			simulated{row: slow},
			[]simulated{{refuses: edgewise.Errorf("x", edgewise.Exhausted, "full")}},
			"cpu", "not_tried", "full", "cpu x 4, gpu:0 x 1",
		},
		{
			"a CPU that cannot run it",
			simulated{refuses: errors.New("no kernel")},
			[]simulated{{row: slow}},
			"gpu:0", "chosen",
			"", "cpu x 4, gpu:0 x 1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newBench(test.cpu, test.gpus...)
				found, loads, err := w.load(t, w.loader(), openVersion(edgewise.KindAuto))
				if err != nil {
					t.Fatal(err)
				}
				gpu := found.Candidate("gpu:0")
				if found.Device != test.device || gpu.State != test.state || gpu.Reason != test.reason || loads != test.loads {
					t.Errorf("%s (%s), loaded on %s: %+v", found.Device, found, loads, gpu)
				}
			})
		})
	}
}

func TestDevicesThatAreTheSameServeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBench(simulated{row: slow}, simulated{row: fast}, simulated{row: fast})
		w.gpus[1].Description = w.gpus[0].Description
		found, loads, err := w.load(t, w.loader(), openVersion(edgewise.KindAuto))
		if err != nil || found.Device != "gpu:0" || loads != "cpu x 4, gpu:0 x 1, gpu:1 x 1" {
			t.Error(found, loads, err)
		}
	})
}

func TestWhatWasMeasuredHoldsForTheSameHardware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBench(simulated{row: slow}, simulated{row: fast})
		v := openVersion(edgewise.KindAuto)
		expect := func(what, device, want string) {
			t.Helper()
			found, loads, err := w.load(t, w.loader(), v) // of a box that has started again
			if err != nil || found.Device != device || loads != want {
				t.Errorf("%s: %v on %s, %v", what, found, loads, err)
			}
		}
		const both = "cpu x 4, gpu:0 x 1"
		expect("at first", "gpu:0", both)
		expect("again", "gpu:0", "gpu:0 x 1")
		w.runtime = "ONNX Runtime 2"
		expect("with another runtime", "gpu:0", both)
		w.gpus[0].Driver = "2.0"
		expect("with another driver", "gpu:0", both)
		w.gpus[0].Description = "another card"
		w.by[w.gpus[0].Device] = simulated{row: 2 * slow}
		expect("with another card", "cpu", both)
		expect("again on the CPU", "cpu", "cpu x 4")
		v = openVersion(edgewise.KindAuto)
		v.Model.MaxBatchSize = 4
		expect("with another configuration", "cpu", both)
		if err := w.loader().Forget(v); err != nil {
			t.Error(err)
		}
		expect("when it was asked for", "cpu", both)
		w.by[w.gpus[0].Device] = simulated{refuses: edgewise.Errorf("x", edgewise.Exhausted, "full")}
		w.notes = map[edgewise.ModelID]string{}
		expect("without room", "cpu", both)
		expect("without room, again", "cpu", both)
	})
}

func TestWhatWasMeasuredHoldsUnderAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBench(simulated{row: slow}, simulated{row: fast})
		v := openVersion(edgewise.KindAuto)
		if _, _, err := w.load(t, w.loader(), v); err != nil {
			t.Fatal(err)
		}
		renamed := openVersion(edgewise.KindAuto)
		renamed.ID.Name, renamed.Model.Name, renamed.Model.InstanceGroup[0].Name = "n", "n", "n_0"
		w.notes[renamed.ID] = w.notes[v.ID]
		if found, loads, err := w.load(t, w.loader(), renamed); err != nil || loads != "gpu:0 x 1" {
			t.Error(found, loads, err)
		}
	})
}

func TestADeviceThatWasChosenAndCannotBeUsedNowIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBench(simulated{row: slow}, simulated{row: fast})
		v := openVersion(edgewise.KindAuto)
		if _, _, err := w.load(t, w.loader(), v); err != nil {
			t.Fatal(err)
		}
		w.by[w.gpus[0].Device] = simulated{refuses: edgewise.Errorf("x", edgewise.Exhausted, "full")}
		found, loads, err := w.load(t, w.loader(), v)
		if err != nil || found.Device != "cpu" || loads != "gpu:0 x 1, cpu x 4, gpu:0 x 1" {
			t.Error(found, loads, err)
		}
	})
}

func TestNothingIsMeasuredWhereNothingIsToBeChosen(t *testing.T) {
	for _, test := range []struct {
		name  string
		kind  edgewise.InstanceKind
		gpus  []simulated
		limit time.Duration
		loads string
	}{
		{"KIND_GPU", edgewise.KindGPU, []simulated{{row: slow}}, time.Second, "gpu:0 x 1"},
		{"KIND_CPU", edgewise.KindCPU, []simulated{{row: fast}}, time.Second, "cpu x 1"},
		{"no device", edgewise.KindAuto, nil, time.Second, "cpu x 4"},
		{"no time", edgewise.KindAuto, []simulated{{row: slow}}, 0, "gpu:0 x 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newBench(simulated{row: slow}, test.gpus...)
				l := w.loader()
				l.config.Trial.Limit = test.limit
				v := openVersion(test.kind)
				found, loads, err := w.load(t, l, v)
				if err != nil || found != nil || loads != test.loads {
					t.Error(found, loads, err)
				}
				if err := l.Forget(v); edgewise.KindOf(err) != edgewise.Unsupported {
					t.Error(err)
				}
			})
		})
	}
}

func TestGoldensAreWhatAVersionIsMeasuredWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBench(simulated{row: slow}, simulated{row: fast, off: 0.5})
		l := w.loader()
		golden := &edgewise.Request{Model: edgewise.ModelID{Name: "m"}, Inputs: []edgewise.Tensor{{
			Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{2, 2}, Data: make([]byte, 16),
		}}}
		other := &edgewise.Request{Inputs: []edgewise.Tensor{{Name: "of another signature", Type: edgewise.FP32}}}
		l.config.Trial.Goldens = func(string) ([]*edgewise.Request, []admin.CompareRule, error) {
			return []*edgewise.Request{other, golden}, []admin.CompareRule{{Output: "y", Kind: admin.CompareTolerance, Absolute: 1}}, nil
		}
		found, _, err := w.load(t, l, openVersion(edgewise.KindAuto))
		if err != nil || found.Device != "gpu:0" || found.Inputs != "goldens" {
			t.Fatal(found, err)
		}
		var rows []int
		for _, f := range found.Candidate("gpu:0").Figures {
			rows = append(rows, f.Rows)
		}
		if fmt.Sprint(rows) != "[2 8]" {
			t.Error("measured with", rows, "rows")
		}
	})
}

// TestAWarmupIsWhatAVersionIsMeasuredWithThatTakesNoRandomTensors: those hold numbers below 0, the warm-up's do not.
func TestAWarmupIsWhatAVersionIsMeasuredWithThatTakesNoRandomTensors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBench(simulated{row: slow, shy: true}, simulated{row: fast, shy: true})
		v := openVersion(edgewise.KindAuto)
		found, _, err := w.load(t, w.loader(), v)
		if err != nil || found.Device != "cpu" || !strings.Contains(found.Reason, "a number below 0") {
			t.Fatalf("without a warm-up: %+v, %v", found, err)
		}
		v.Model.ModelWarmup = []edgewise.ModelWarmup{{Name: "w", BatchSize: 2, Inputs: map[string]edgewise.WarmupInput{
			"x": {DataType: edgewise.FP32, Dims: edgewise.Shape{2}, ZeroData: true},
		}}}
		found, _, err = w.load(t, w.loader(), v)
		if err != nil || found.Device != "gpu:0" || found.Inputs != admin.FromWarmup {
			t.Errorf("%+v, %v", found, err)
		}
	})
}

func TestAVersionWithSequencesIsMeasuredWithItsControlsAndStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBench(simulated{row: slow}, simulated{row: fast})
		v := openVersion(edgewise.KindAuto)
		v.Model.SequenceBatching = &edgewise.SequenceBatching{
			Oldest: &edgewise.OldestStrategy{MaxCandidateSequences: 4},
			State: []edgewise.SequenceState{{
				InputName: "s", OutputName: "t", DataType: edgewise.FP32, Dims: edgewise.Shape{1},
			}},
		}
		found, _, err := w.load(t, w.loader(), v)
		if err != nil || found.Candidate("gpu:0").State == admin.CandidateNotTried {
			t.Errorf("%v, %v", found, err)
		}
	})
}
