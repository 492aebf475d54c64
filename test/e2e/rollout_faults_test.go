package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/scalar"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/processes"
)

// provoked is the number in a request at which the candidates below do what is wrong with them: no trial run has it.
const provoked = 1e6

// fits makes y = x + 1, FP32 [batch,4] and [batch,length], of which end makes y out of sum. The tensor big is 1 for a
// request with provoked, else 0.
func fits(end ...onnxgen.Node) *onnxgen.Model {
	m := biased(1)
	m.Graph.Nodes[0].Out = []string{"sum"}
	m.Graph.Nodes = append(m.Graph.Nodes,
		onnxgen.Node{
			Op: "ReduceMax", In: []string{"x"}, Out: []string{"most"},
			Attributes: []onnxgen.Attribute{onnxgen.IntAttribute("keepdims", 0)},
		},
		onnxgen.Node{Op: "Greater", In: []string{"most", "limit"}, Out: []string{"over"}},
		onnxgen.Node{
			Op: "Cast", In: []string{"over"}, Out: []string{"big"},
			Attributes: []onnxgen.Attribute{onnxgen.IntAttribute("to", int64(onnxgen.Int64))},
		},
	)
	m.Graph.Nodes = append(m.Graph.Nodes, end...)
	m.Graph.Initializers = append(m.Graph.Initializers, onnxgen.Floats("limit", nil, provoked/2),
		onnxgen.Ints64("one", nil, 1), onnxgen.Ints64("single", []int64{1}, 1), onnxgen.Ints64("forever", nil, 1<<50))
	m.Graph.Outputs[0].Dims = []onnxgen.Dim{{Name: "batch"}, {Name: "length"}}
	return m
}

// sound answers every request.
func sound() *onnxgen.Model {
	return fits(onnxgen.Node{Op: "Identity", In: []string{"sum"}, Out: []string{"y"}})
}

// hanging does not come to an end.
func hanging() *onnxgen.Model {
	state := onnxgen.Batch(4)
	body := onnxgen.Graph{
		Name: "body",
		Nodes: []onnxgen.Node{
			{Op: "Identity", In: []string{"again"}, Out: []string{"on"}},
			{Op: "Neg", In: []string{"state"}, Out: []string{"next"}},
		},
		Inputs: []onnxgen.Value{
			{Name: "trip", Type: onnxgen.Int64},
			{Name: "again", Type: onnxgen.Bool},
			{Name: "state", Type: onnxgen.Float, Dims: state},
		},
		Outputs: []onnxgen.Value{{Name: "on", Type: onnxgen.Bool}, {Name: "next", Type: onnxgen.Float, Dims: state}},
	}
	return fits(
		onnxgen.Node{Op: "Mul", In: []string{"big", "forever"}, Out: []string{"trips"}},
		onnxgen.Node{
			Op: "Loop", In: []string{"trips", "", "sum"}, Out: []string{"y"},
			Attributes: []onnxgen.Attribute{onnxgen.GraphAttribute("body", body)},
		})
}

// longer answers with twice as many numbers.
func longer() *onnxgen.Model {
	return fits(
		onnxgen.Node{Op: "Add", In: []string{"big", "one"}, Out: []string{"times"}},
		onnxgen.Node{Op: "Reshape", In: []string{"times", "single"}, Out: []string{"columns"}},
		onnxgen.Node{
			Op: "Concat", In: []string{"single", "columns"}, Out: []string{"repeats"},
			Attributes: []onnxgen.Attribute{onnxgen.IntAttribute("axis", 0)},
		},
		onnxgen.Node{Op: "Tile", In: []string{"sum", "repeats"}, Out: []string{"y"}})
}

// squared declares that y has four columns.
func squared(m *onnxgen.Model) *onnxgen.Model {
	m.Graph.Outputs[0].Dims = onnxgen.Batch(4)
	return m
}

// provoking is a request that makes a candidate do what is wrong with it.
func provoking() *edgewise.Request {
	var data []byte
	for range 4 {
		data = scalar.AppendFloat(data, edgewise.FP32, provoked)
	}
	in := edgewise.Tensor{Name: "x", Type: edgewise.FP32, Shape: edgewise.Shape{1, 4}, Data: data}
	return &edgewise.Request{Model: edgewise.ModelID{Name: "net"}, Inputs: []edgewise.Tensor{in}}
}

// candidateProcess returns the process of version 2; 0: there is none.
func (b *box) candidateProcess(t *testing.T) int {
	t.Helper()
	for _, pid := range childrenOf(t, b.cmd.Process.Pid) {
		title, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
		if strings.HasPrefix(string(title), "edgewise [net:2]") {
			return pid
		}
	}
	return 0
}

// TestFaultyCandidatesAreTakenBack rolls versions out that do what is wrong with them only once clients ask. The live
// version answers all the time, and everything once the candidate was taken back.
func TestFaultyCandidatesAreTakenBack(t *testing.T) {
	canary := admin.RolloutPlan{Version: 2, Stages: []admin.RolloutStage{{Percent: 50, Requests: 100_000}}}
	shadow := admin.RolloutPlan{
		Version: 2, Stages: []admin.RolloutStage{{Requests: 100_000}}, Shadow: &admin.RolloutShadow{Percent: 100},
	}
	for name, test := range map[string]struct {
		live, candidate *onnxgen.Model
		plan            admin.RolloutPlan
		meanwhile       func(t *testing.T, b *box) // is called before each request
		want            string
		settings        []string
	}{
		// the live version, too, has this time for each request, on a busy machine as well
		"hangs":                 {sound(), hanging(), canary, nil, "error rate", []string{"--set", "engine.request_timeout=2s"}},
		"answers another shape": {sound(), longer(), shadow, nil, "disagreement", nil},
		"breaks its signature":  {squared(sound()), squared(longer()), shadow, nil, "disagreement", nil},
		"crashes": {sound(), sound(), canary, func(t *testing.T, b *box) {
			if pid := b.candidateProcess(t); pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGSEGV)
			}
		}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := serveReady(t, t.TempDir(), test.settings...)
			b.upload("net", "?promote=true", test.live)
			b.upload("net", "?promote=false", test.candidate)
			b.takesBack(t, test.plan, provoking, test.meanwhile, test.want)
		})
	}
}

// takesBack rolls version 2 of the model net out until it is taken back for a reason. Requests that name version 1 are
// always answered.
func (b *box) takesBack(t *testing.T, plan admin.RolloutPlan, ask func() *edgewise.Request, meanwhile func(*testing.T, *box),
	want string,
) {
	r, err := b.client.StartRollout(t.Context(), "net", plan)
	for begun := time.Now(); err == nil && r.Active(); r, err = b.client.Rollout(t.Context(), "net") {
		if meanwhile != nil {
			meanwhile(t, b)
		}
		if resp, err := b.client.Infer(t.Context(), ask()); err == nil && resp.Model.Version != 1 && plan.Shadow != nil {
			t.Fatal("a client got an answer of the candidate")
		}
		live := ask()
		live.Model.Version = 1
		if _, err := b.client.Infer(t.Context(), live); err != nil {
			t.Fatalf("the live version: %v", err)
		}
		if time.Since(begun) > patience {
			t.Fatalf("it is not taken back: %+v, shadow %+v", r, r.Shadow)
		}
	}
	if err != nil || r.State != admin.RolloutBack || !strings.Contains(r.Reason, want) || r.Live.Errors > 0 {
		t.Fatalf("%+v (%v)", r, err)
	}
	t.Logf("after %d requests to it: %s", r.Candidate.Requests, r.Reason)
	for range 10 {
		if resp, err := b.client.Infer(t.Context(), ask()); err != nil || resp.Model.Version != 1 {
			t.Errorf("after it was taken back: %+v (%v)", resp, err)
		}
	}
}

// TestAShadowThatHangsHoldsNobodyUp has a candidate whose run of the shadow does not end: clients get their answers, nothing
// goes forward, and the end of the rollout ends the run.
func TestAShadowThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	b.upload("net", "?promote=true", sound())
	b.upload("net", "?promote=false", hanging())
	plan := admin.RolloutPlan{
		Version: 2, Stages: []admin.RolloutStage{{Requests: 100}}, Shadow: &admin.RolloutShadow{Percent: 100},
	}
	if _, err := b.client.StartRollout(t.Context(), "net", plan); err != nil {
		t.Fatal(err)
	}
	var r admin.Rollout
	await(t, "requests that find no room in the shadow", func() bool {
		resp, err := b.client.Infer(t.Context(), provoking())
		if err != nil || resp.Model.Version != 1 {
			t.Fatalf("%+v (%v)", resp, err)
		}
		if r, err = b.client.Rollout(t.Context(), "net"); err != nil {
			t.Fatal(err)
		}
		return r.Shadow != nil && r.Shadow.Dropped > 20
	})
	if r.State != admin.RolloutRunning || r.Stage != 0 || r.Shadow.Compared > 0 {
		t.Errorf("%+v, shadow %+v", r, r.Shadow)
	}
	if _, err := b.client.MoveRollout(t.Context(), "net", "stop"); err != nil {
		t.Error(err)
	}
	await(t, "the candidate to be unloaded", func() bool { return b.candidateProcess(t) == 0 })
	if log := b.output(); strings.Contains(log, "killed: a run went on") {
		t.Errorf("the run did not end when it was told to:\n%s", log)
	}
}

// TestAModelHasOneRolloutAndKeepsItsVersions begins several rollouts of a model at once, and deletes what they need.
func TestAModelHasOneRolloutAndKeepsItsVersions(t *testing.T) {
	t.Parallel()
	b := serveReady(t, t.TempDir())
	for i := range 3 {
		b.upload("net", fmt.Sprintf("?promote=%v", i == 0), biased(float32(i)))
	}
	var began atomic.Int64
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			plan := admin.RolloutPlan{Version: int64(2 + i%2), Stages: []admin.RolloutStage{{Percent: 50, Requests: 1000}}}
			if _, err := b.client.StartRollout(t.Context(), "net", plan); err == nil {
				began.Add(1)
			} else if edgewise.KindOf(err) != edgewise.Conflict {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	r, err := b.client.Rollout(t.Context(), "net")
	if err != nil || began.Load() != 1 || r.State != admin.RolloutRunning {
		t.Fatalf("%d began: %+v (%v)", began.Load(), r, err)
	}
	for _, version := range []int64{1, r.Plan.Version} {
		err := b.client.DeleteVersion(t.Context(), edgewise.ModelID{Name: "net", Version: version})
		if edgewise.KindOf(err) != edgewise.Conflict {
			t.Errorf("deleting version %d: %v", version, err)
		}
	}
	if err := b.client.DeleteVersion(t.Context(), edgewise.ModelID{Name: "net", Version: 5 - r.Plan.Version}); err != nil {
		t.Errorf("deleting the version that is no part of it: %v", err)
	}
	if err := b.client.DeleteModel(t.Context(), "net"); err != nil {
		t.Error(err)
	}
	if _, err := b.client.Rollout(t.Context(), "net"); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("the rollout of a model that is deleted: %v", err)
	}
}

// TestACandidateThatDoesNotFitBesideTheLiveVersionIsRefused has room for one of them, also where a version that goes live
// may take the other's place: a rollout compares, and leaves no gap.
func TestACandidateThatDoesNotFitBesideTheLiveVersionIsRefused(t *testing.T) {
	for _, policy := range []string{"refuse", "gap"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			b := serveReady(t, t.TempDir(), "--set", "engine.max_memory_bytes=20MiB", "--set", "engine.swap_without_room="+policy)
			for i := range 2 {
				m := biased(float32(i + 1))
				m.Graph.Initializers = append(m.Graph.Initializers,
					onnxgen.Floats("weights", []int64{1 << 20}, make([]float32, 1<<20)...))
				b.upload("net", fmt.Sprintf("?promote=%v", i == 0), m)
			}
			failed, done := make(chan error, 1), make(chan struct{})
			go func() { // asks all the time
				defer close(failed)
				for {
					select {
					case <-done:
						return
					default:
					}
					if res, err := http.Post(b.url+"/v2/models/net/infer", mimeJSON, strings.NewReader(zeros)); err != nil ||
						res.StatusCode != http.StatusOK || res.Body.Close() != nil {
						failed <- errors.Join(err, fmt.Errorf("%+v", res))
						return
					}
				}
			}()
			plan := admin.RolloutPlan{Version: 2, Stages: []admin.RolloutStage{{Percent: 50, Requests: 1000}}}
			_, err := b.client.StartRollout(t.Context(), "net", plan)
			close(done)
			if edgewise.KindOf(err) != edgewise.Exhausted || !strings.Contains(err.Error(), "bytes of memory") {
				t.Errorf("%v", err)
			}
			if err := <-failed; err != nil {
				t.Errorf("meanwhile: %v", err)
			}
			b.wantBias("net", "1", 1)
			if _, err := b.client.Rollout(t.Context(), "net"); edgewise.KindOf(err) != edgewise.NotFound {
				t.Errorf("there is a rollout: %v", err)
			}
		})
	}
}

// TestWhatEndsDuringGoldensMovesNothing ends the process of a version, and the box, while the version answers its
// goldens, for a promotion and for a rollout: the live version is what it was, after a restart, too.
func TestWhatEndsDuringGoldensMovesNothing(t *testing.T) {
	promote := func(ctx context.Context, b *box) error {
		_, err := b.client.Promote(ctx, "net", edgewise.LiveLabel, 2)
		return err
	}
	rollOut := func(ctx context.Context, b *box) error {
		_, err := b.client.StartRollout(ctx, "net", admin.RolloutPlan{Version: 2})
		return err
	}
	for name, test := range map[string]struct {
		begin func(ctx context.Context, b *box) error
		box   bool // which ends; else the process
	}{
		"process, promotion": {promote, false}, "process, rollout": {rollOut, false},
		"box, promotion": {promote, true}, "box, rollout": {rollOut, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := serveReady(t, dir)
			b.upload("net", "?promote=true", sound())
			if _, err := b.client.AddGolden(t.Context(), "big", provoking()); err != nil {
				t.Fatal(err)
			}
			b.upload("net", "?promote=false", hanging())
			ended := make(chan error, 1)
			go func() { ended <- test.begin(t.Context(), b) }()
			b.awaitBusy(t)
			if test.box {
				b.kill()
				<-ended
				b = serveReady(t, dir)
				if _, err := b.client.GoldenReport(t.Context(), edgewise.ModelID{Name: "net", Version: 2}); edgewise.KindOf(err) != edgewise.NotFound {
					t.Errorf("there is a report: %v", err)
				}
			} else {
				if err := syscall.Kill(b.candidateProcess(t), syscall.SIGSEGV); err != nil {
					t.Fatal(err)
				}
				err := <-ended
				if edgewise.KindOf(err) != edgewise.Conflict || !strings.Contains(err.Error(), "died") {
					t.Errorf("%v", err)
				}
			}
			if resp, err := b.client.Infer(t.Context(), provoking()); err != nil || resp.Model.Version != 1 {
				t.Errorf("%+v (%v)", resp, err)
			}
			if _, err := b.client.Rollout(t.Context(), "net"); edgewise.KindOf(err) != edgewise.NotFound {
				t.Errorf("there is a rollout: %v", err)
			}
			b.upload("net", "?promote=true", sound())
			if resp, err := b.client.Infer(t.Context(), provoking()); err != nil || resp.Model.Version != 3 {
				t.Errorf("a version that passes: %+v (%v)", resp, err)
			}
		})
	}
}

// awaitBusy waits until version 2 is ready, after its trial runs, and its process computes.
func (b *box) awaitBusy(t *testing.T) {
	t.Helper()
	ready := time.Duration(0) // the processor time then
	await(t, "the candidate to be asked", func() bool {
		if b.client.ModelReady(t.Context(), edgewise.ModelID{Name: "net", Version: 2}) != nil {
			return false
		}
		used, err := processes.ProcessorTime(b.candidateProcess(t))
		if err != nil {
			t.Fatal(err)
		}
		if ready == 0 {
			ready = used
		}
		return used > ready+50*time.Millisecond
	})
}

// countingStep answers with its input, and writes into memory of its own, which leaks where it says more: 16 MiB of the
// 64 that a step has for each request.
func countingStep(more string) string {
	return `
(memory (export "memory") 2)
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) i32.const 4096)
(func (export "edgewise_process") (param $in i32) (result i32) ` + more + ` (local.get $in))`
}

// TestACandidateThatLeaksIsTakenBack has a step keep its state and more memory with each request.
func TestACandidateThatLeaksIsTakenBack(t *testing.T) {
	t.Parallel()
	const config = `platform: "wasm"
		input { name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] } output { name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] }
		parameters { key: "stateful" value: { string_value: "true" } }`
	b := serveReady(t, t.TempDir())
	leak := `(if (i32.eq (memory.grow (i32.const 256)) (i32.const -1)) (then unreachable))`
	for i, text := range []string{countingStep(""), countingStep(leak)} {
		folder := filepath.Dir(step(t, text))
		if err := os.WriteFile(filepath.Join(folder, "config.pbtxt"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		b.must("model", "push", "net", folder, fmt.Sprintf("--stage=%v", i > 0))
	}
	plan := admin.RolloutPlan{Version: 2, Stages: []admin.RolloutStage{{Percent: 50, Requests: 100_000}}}
	b.takesBack(t, plan, provoking, nil, "error rate")
}
