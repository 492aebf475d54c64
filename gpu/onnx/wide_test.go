package onnx

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// measurements is a request to onnxgen.MLP.
func measurements() []edgewise.Tensor {
	var values []float32
	for i := range 64 {
		values = append(values, float32(i)/64)
	}
	return []edgewise.Tensor{{Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{1, 64}, Data: floats(values...)}}
}

// opener makes sessions of a model's file, with as many threads as are given.
func opener(t *testing.T, m *onnxgen.Model) func(threads int) (*ort.Session, error) {
	t.Helper()
	lib, err := ort.Open(ort.Candidates(real.Library(t)), ort.Process{})
	if err != nil {
		t.Fatal(err)
	}
	dir := saved(t, m)
	return func(threads int) (*ort.Session, error) {
		return lib.NewSession(filepath.Join(dir, DefaultFilename), []string{"input"}, []string{"output"},
			ort.Options{IntraThreads: threads, Spin: threads > 1, Rest: true, Nice: wideNice * (threads - 1)})
	}
}

// elastic is a version whose second session comes from another opener.
func elastic(t *testing.T, plain, second func(threads int) (*ort.Session, error)) *wide {
	t.Helper()
	s, err := plain(1)
	if err != nil {
		t.Fatal(err)
	}
	return newWide(s, edgewise.ModelID{Name: "m", Version: 1}, func() (*ort.Session, error) { return second(2) },
		slog.New(slog.DiscardHandler))
}

// ask runs once and tells whether the run was wide. Every answer must be the same as all others.
func ask(t *testing.T, w edgewise.Instance, alone bool, want []byte) bool {
	t.Helper()
	r, err := w.Run(t.Context(), measurements(), []string{"output"}, edgewise.RunOptions{Solo: alone})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Free()
	if want != nil && !bytes.Equal(r.Outputs[0].Data, want) {
		t.Error("another answer")
	}
	return r.Wide
}

func TestASecondSessionIsMadeUsedAndGivenUp(t *testing.T) {
	open := opener(t, onnxgen.MLP(1))
	plain, err := open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	want := infer(t, plain, []string{"output"}, measurements()...)[0].Data
	synctest.Test(t, func(t *testing.T) {
		w := elastic(t, open, open)
		if ask(t, w, false, want) || ask(t, w, true, want) {
			t.Error("a wide run before there was a session for it")
		}
		time.Sleep(wideAgain)
		ask(t, w, true, want)
		synctest.Wait()
		if w.state != wideAbsent {
			t.Error("runs that do not follow each other made a session")
		}
		ask(t, w, true, want)
		w.opening.Wait()
		if w.state != wideOpened || ask(t, w, true, want) || w.state != wideChecked {
			t.Errorf("the first run with it is to be compared: state %v", w.state)
		}
		if !ask(t, w, true, want) || ask(t, w, false, want) {
			t.Error("a run that is told that it is alone is wide, and no other")
		}
		r, err := w.Run(t.Context(), measurements(), []string{"output"}, edgewise.RunOptions{
			Solo: true, Place: func(sizes []int64) [][]byte { return make([][]byte, len(sizes)) },
		})
		if err != nil || !r.Wide || !bytes.Equal(r.Outputs[0].Data, want) {
			t.Fatal(r, err)
		}
		time.Sleep(2 * wideIdle)
		if w.second == nil {
			t.Error("closed under a result")
		}
		r.Free()
		time.Sleep(2 * wideIdle)
		synctest.Wait()
		if w.second != nil || w.state != wideAbsent {
			t.Error("a session that nobody uses is kept")
		}
		ask(t, w, true, want)
		ask(t, w, true, want)
		w.opening.Wait()
		ask(t, w, true, want)
		if !ask(t, w, true, want) {
			t.Error("it is not made again")
		}
		if err := w.Close(); err != nil || w.second != nil {
			t.Error(err, w.second)
		}
	})
}

func TestASecondSessionThatIsOfNoUse(t *testing.T) {
	open := opener(t, onnxgen.MLP(1))
	tests := map[string]func(threads int) (*ort.Session, error){
		"another answer":    opener(t, onnxgen.MLP(2)),
		"cannot be made":    func(int) (*ort.Session, error) { return nil, errors.New("no memory") },
		"refuses the input": opener(t, onnxgen.AddSub()),
	}
	for name, second := range tests {
		t.Run(name, func(t *testing.T) {
			w := elastic(t, open, second)
			for range 5 {
				if ask(t, w, true, nil) {
					t.Error("it was used")
				}
				w.opening.Wait()
			}
			if w.state != wideRefused || w.second != nil {
				t.Errorf("state %v", w.state)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// reshaping gives its input back in the shape [64], which it takes from the input's first number where fragile is set:
// it fails where that says something else.
func reshaping(fragile bool) *onnxgen.Model {
	shape := onnxgen.Node{Op: "Identity", In: []string{"all"}, Out: []string{"shape"}}
	if fragile {
		shape = onnxgen.Node{
			Op: "Cast", In: []string{"one"}, Out: []string{"shape"},
			Attributes: []onnxgen.Attribute{onnxgen.IntAttribute("to", int64(onnxgen.TypeOf(edgewise.Int64)))},
		}
	}
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes: []onnxgen.Node{
			{Op: "Slice", In: []string{"input", "from", "to"}, Out: []string{"one"}},
			shape,
			{Op: "Reshape", In: []string{"input", "shape"}, Out: []string{"output"}},
		},
		Initializers: []onnxgen.Tensor{
			onnxgen.Ints64("from", []int64{1}, 0), onnxgen.Ints64("to", []int64{1}, 1),
			onnxgen.Ints64("all", []int64{1}, 64),
		},
		Inputs:  []onnxgen.Value{{Name: "input", Type: onnxgen.Float, Dims: onnxgen.Dims(64)}},
		Outputs: []onnxgen.Value{{Name: "output", Type: onnxgen.Float, Dims: []onnxgen.Dim{{Name: "n"}}}},
	}}
}

func TestAWideRunThatFailsIsRunOnOneThread(t *testing.T) {
	w := elastic(t, opener(t, reshaping(false)), opener(t, reshaping(true)))
	run := func(first float32) bool {
		t.Helper()
		in := []edgewise.Tensor{{
			Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{64},
			Data: floats(append([]float32{first}, make([]float32, 63)...)...),
		}}
		r, err := w.Run(t.Context(), in, []string{"output"}, edgewise.RunOptions{Solo: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Free()
		if !bytes.Equal(r.Outputs[0].Data, in[0].Data) {
			t.Error("another answer")
		}
		return r.Wide
	}
	for range 3 {
		run(64)
		w.opening.Wait()
	}
	if !run(64) {
		t.Fatal("no run was wide")
	}
	if run(7) || w.state != wideRefused || w.second != nil {
		t.Errorf("state %v after a failure, want refused, and the answer of one thread", w.state)
	}
	if run(64) {
		t.Error("wide again")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestWideAndOtherRunsAtTheSameTime also closes while the second session is being made.
func TestWideAndOtherRunsAtTheSameTime(t *testing.T) {
	open := opener(t, onnxgen.MLP(1))
	w := elastic(t, open, open)
	want := infer(t, w, []string{"output"}, measurements()...)[0].Data
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for n := range 500 {
				ask(t, w, (n+client)%2 == 0, want)
			}
		})
	}
	clients.Wait()
	if err := w.Close(); err != nil || w.second != nil {
		t.Error(err, w.second)
	}
	w = elastic(t, open, open)
	ask(t, w, true, want)
	ask(t, w, true, want)
	if err := w.Close(); err != nil || w.second != nil {
		t.Error(err, w.second)
	}
}

func TestWhichVersionsHaveWideRuns(t *testing.T) {
	b := New(Config{Library: real.Library(t), Cores: 2, Logger: slog.New(slog.DiscardHandler)})
	for _, test := range []struct {
		name       string
		parameters map[string]string
		want       bool
	}{
		{"by default", nil, true},
		{"not where many requests count", map[string]string{"execution_profile": "throughput"}, false},
		{"not where every run has all cores", map[string]string{"execution_profile": "latency"}, false},
		{"not where threads were asked for", map[string]string{"intra_op_thread_count": "1"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := &edgewise.Model{Name: "m", Platform: Platform, Parameters: map[string]edgewise.ModelParam{}}
			for key, value := range test.parameters {
				m.Parameters[key] = edgewise.ModelParam{StringValue: value}
			}
			i, err := b.Load(t.Context(), &edgewise.Version{ID: edgewise.ModelID{Name: "m", Version: 1}, Model: m},
				saved(t, onnxgen.MLP(1)), edgewise.Device{})
			if err != nil {
				t.Fatal(err)
			}
			defer i.Close()
			if _, is := i.(*wide); is != test.want {
				t.Errorf("%T", i)
			}
		})
	}
}
