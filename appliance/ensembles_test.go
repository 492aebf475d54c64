package appliance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/manager"
)

type file = struct{ path, content string }

// both is an ensemble that asks "a" and then "b", and answers with what both say.
const both = `platform: "ensemble"
input { name: "in" data_type: TYPE_STRING dims: 1 }
output { name: "first" data_type: TYPE_STRING dims: 1 }
output { name: "second" data_type: TYPE_STRING dims: 1 }
ensemble_scheduling {
  step { model_name: "a" model_version: -1 input_map { key: "in" value: "in" } output_map { key: "out" value: "first" } }
  step { model_name: "b" model_version: -1 input_map { key: "in" value: "first" } output_map { key: "out" value: "second" } }
}`

func (h *house) pushEnsemble(name, config string) (*admin.Pushed, error) {
	return h.Push(h.t.Context(), uploadOf(name, file{"config.pbtxt", config}), true)
}

// askBoth returns what an ensemble answers, or the kind of the error.
func (h *house) askBoth(id edgewise.ModelID) string {
	in := edgewise.Tensor{Name: "in", Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, "?")}
	r, err := h.manager.Infer(h.t.Context(), &edgewise.Request{Model: id, Inputs: []edgewise.Tensor{in}})
	if err != nil {
		return edgewise.KindOf(err).String()
	}
	defer r.Release()
	var said []string
	for _, out := range r.Outputs {
		for element := range edgewise.Elements(out.Data) {
			said = append(said, string(element))
		}
	}
	return strings.Join(said, " ")
}

func (h *house) wantBoth(want string) {
	h.t.Helper()
	if got := h.askBoth(edgewise.ModelID{Name: "E"}); got != want {
		h.t.Errorf("the ensemble answers %q, want %q", got, want)
	}
}

func (h *house) wantRefusal(err error, kind edgewise.Kind, want string) {
	h.t.Helper()
	if err == nil || edgewise.KindOf(err) != kind || err.Error() != want {
		h.t.Errorf("got %v, want %s (%v)", err, want, kind)
	}
}

// withBoth pushes a, b and the ensemble E.
func withBoth(t *testing.T) *house {
	t.Helper()
	h := newHouse(t)
	for _, name := range []string{"a", "b"} {
		_, err := h.push(name, name+"1", 0, true)
		h.must(err)
	}
	_, err := h.pushEnsemble("E", both)
	h.must(err)
	return h
}

func TestAnEnsembleKeepsWhatItWasPinnedTo(t *testing.T) {
	h := withBoth(t)
	h.wantBoth("a1 b1")
	_, err := h.push("a", "a2", 0, true)
	h.must(err)
	h.wantAnswer("a", "a2")
	h.wantBoth("a1 b1")
	second, err := h.pushEnsemble("E", both)
	h.must(err)
	h.wantBoth("a2 b1")
	first := h.record("E").Version(1)
	if first.Digest == second.Digest {
		t.Error("two pipelines of different parts have one digest")
	}
	if pin := second.Model.EnsembleScheduling.Step[0].Pinned; pin.Version != 2 || pin.Digest != h.record("a").Version(2).Digest {
		t.Errorf("pinned to %+v", pin)
	}
	h.must(h.manager.Settle(t.Context(), "E"))
	h.must(h.manager.Settle(t.Context(), "a"))
	if n := h.backend.loaded.Load(); n != 2 {
		t.Errorf("%d instances are loaded, want a2 and b1", n)
	}
	_, err = h.Rollback(t.Context(), "E", "live")
	h.must(err)
	h.wantBoth("a1 b1")
	h.wantAnswer("a", "a2")
}

func TestTheSamePipelineHasTheSameDigest(t *testing.T) {
	h := withBoth(t)
	again, err := h.pushEnsemble("E", both)
	h.must(err)
	if first := h.record("E").Version(1); first.Digest != again.Digest {
		t.Error("a pipeline that was pushed twice has two digests")
	}
}

func TestWhatAnEnsembleRunsIsNotTakenFromIt(t *testing.T) {
	h := withBoth(t)
	_, err := h.push("a", "a2", 0, true)
	h.must(err)
	h.wantRefusal(h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "a", Version: 1}), edgewise.Conflict,
		`model "a" version 1 cannot be deleted while an ensemble pins it: "E" version 1: delete that first`)
	h.wantRefusal(h.DeleteModel(t.Context(), "b"), edgewise.Conflict, `model "b" cannot be deleted while an ensemble pins it: "E" version 1: delete that first`)
	h.wantRefusal(h.Unload(t.Context(), "a"), edgewise.Conflict, `model "a" cannot be unloaded while an ensemble runs it: "E" version 1: unload that first`)
	h.wantBoth("a1 b1")

	h.must(h.Unload(t.Context(), "E"))
	h.must(h.Unload(t.Context(), "a"))
	h.wantBoth("not_found")
	h.wantAnswer("a", "not_found")
	h.wantRefusal(h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "a", Version: 1}), edgewise.Conflict,
		`model "a" version 1 cannot be deleted while an ensemble pins it: "E" version 1: delete that first`)

	h.must(h.Load(t.Context(), "E")) // and with it its parts
	h.wantBoth("a1 b1")
	h.wantAnswer("a", "not_found")
	h.must(h.Unload(t.Context(), "E"))
	for _, name := range []string{"E", "a", "b"} {
		h.must(h.manager.Settle(t.Context(), name))
	}
	if n := h.backend.loaded.Load(); n != 1 {
		t.Errorf("%d instances are loaded, want b, which is live", n)
	}
	h.must(h.DeleteModel(t.Context(), "E"))
	h.must(h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "a", Version: 1}))
	h.must(h.DeleteModel(t.Context(), "b"))
}

func TestAnEnsembleInsideAnotherHoldsItsParts(t *testing.T) {
	h := withBoth(t)
	outer := strings.NewReplacer(`model_name: "b"`, `model_name: "E"`, `key: "out" value: "second"`, `key: "second" value: "second"`).Replace(both)
	_, err := h.pushEnsemble("outer", outer)
	h.must(err)
	if got := h.askBoth(edgewise.ModelID{Name: "outer"}); got != "a1 b1" {
		t.Errorf("answered %q", got)
	}
	h.wantRefusal(h.Unload(t.Context(), "E"), edgewise.Conflict, `model "E" cannot be unloaded while an ensemble runs it: "outer" version 1: unload that first`)
	h.wantRefusal(h.Unload(t.Context(), "b"), edgewise.Conflict, `model "b" cannot be unloaded while an ensemble runs it: "E" version 1, "outer" version 1: unload that first`)
	_, err = h.pushEnsemble("E", strings.ReplaceAll(outer, `model_name: "E"`, `model_name: "outer"`))
	h.wantRefusal(err, edgewise.Invalid, "in ensemble 'E', it contains itself: E -> outer -> E")
}

func TestEnsemblesThatAreRefusedAreNotStored(t *testing.T) {
	h := newHouse(t)
	_, err := h.pushEnsemble("E", both)
	h.wantRefusal(err, edgewise.NotFound,
		"in ensemble 'E', step 0: there is no model 'a' on this box\nin ensemble 'E', step 1: there is no model 'b' on this box")
	_, err = h.push("a", "a1", 0, true)
	h.must(err)
	_, err = h.push("b", "b1", 0, false)
	h.must(err)
	_, err = h.pushEnsemble("E", both)
	h.wantRefusal(err, edgewise.Conflict, "in ensemble 'E', step 1: model 'b' has no live version: promote one, or name a version in model_version")
	_, err = h.pushEnsemble("E", strings.ReplaceAll(both, "TYPE_STRING", "TYPE_FP32"))
	if err == nil {
		t.Error("an ensemble of other types was stored")
	}
	_, err = h.pushEnsemble("E", `platform: "ensemble" output { name: "y" data_type: TYPE_FP32 dims: 1 }`)
	h.wantRefusal(err, edgewise.Invalid, `in ensemble 'E', ensemble_scheduling is missing: platform "ensemble" needs its steps`)
	_, err = h.Push(t.Context(), uploadOf("E", file{"config.pbtxt", strings.Replace(both, `"ensemble"`, `"onnxruntime_onnx"`, 1)}, file{"model.onnx", "x"}), true)
	if err == nil || !strings.Contains(err.Error(), `in ensemble 'E', platform is "onnxruntime_onnx"`) {
		t.Errorf("an ensemble with a model file: %v", err)
	}
	if h.record("E") != nil {
		t.Error("a refused ensemble is stored")
	}
	_, err = h.pushEnsemble("E", strings.Replace(both, `model_name: "b" model_version: -1`, `model_name: "b" model_version: 1`, 1))
	h.must(err)
	h.wantBoth("a1 b1")
}

func TestAnEnsembleOfAPartThatDoesNotLoadIsNotLive(t *testing.T) {
	h := withBoth(t)
	_, err := h.push("a", "x", 0, false)
	h.must(err)
	v, err := h.pushEnsemble("E", strings.Replace(both, "-1", "2", 1))
	want := `model "E" version 2 is stored but was not made live: load failed for model 'E': version 2 is at UNAVAILABLE state: in ensemble 'E', ` +
		`load failed for model 'a': version 2 is at UNAVAILABLE state: broken on purpose;;`
	h.wantRefusal(err, edgewise.Invalid, want)
	if v == nil || v.ID.Version != 2 {
		t.Errorf("stored as %v", v)
	}
	h.wantBoth("a1 b1")
	h.must(h.manager.Settle(t.Context(), "E"))
	h.must(h.manager.Settle(t.Context(), "a"))
	if !h.manager.Ready() {
		t.Error("the box is not ready because of a version that nobody serves")
	}
}

func TestEnsemblesComeBackAfterARestart(t *testing.T) {
	h := withBoth(t)
	h.must(h.Unload(t.Context(), "E"))
	h.must(h.Unload(t.Context(), "a"))
	h.must(h.Load(t.Context(), "E"))
	h.must(h.manager.Close(t.Context()))
	h.manager = manager.New(manager.Config{Load: h.load, Concurrency: 1, Logger: h.logger})
	h.start()
	h.must(h.manager.Settle(t.Context(), "E"))
	h.wantBoth("a1 b1")
	h.wantAnswer("a", "not_found")
	if !h.manager.Ready() {
		t.Error("the box is not ready")
	}
}

func TestLabelsOfAnEnsembleAreThoseOfItsParts(t *testing.T) {
	h := newHouse(t)
	config := `input { name: "in" data_type: TYPE_STRING dims: 1 } output { name: "out" data_type: TYPE_STRING dims: 1 label_filename: "labels.txt" }`
	_, err := h.Push(t.Context(), uploadOf("a", file{"model.onnx", "a1"}, file{"config.pbtxt", config}, file{"labels.txt", "cat\ndog\n"}), true)
	h.must(err)
	_, err = h.push("b", "b1", 0, true)
	h.must(err)
	_, err = h.pushEnsemble("E", both)
	h.must(err)
	id := edgewise.ModelID{Name: "E", Version: 1}
	if got := h.labels(id, "first"); !slices.Equal(got, []string{"cat", "dog"}) {
		t.Errorf("labels %q", got)
	}
	if got := h.labels(id, "second"); len(got) != 0 {
		t.Errorf("labels %q of a model without", got)
	}
}

func TestWhatIsReadOfAnEnsemble(t *testing.T) {
	h := withBoth(t)
	ins, err := h.Inspect(t.Context(), edgewise.ModelID{Name: "E", Version: 1})
	h.must(err)
	if fmt.Sprint(ins.Steps) != `["a" version 1 "b" version 1]` || len(ins.Inputs) != 1 || len(ins.Outputs) != 2 || ins.Inputs[0].Datatype != "BYTES" || !ins.Outputs[1].Shape.Equal(edgewise.Shape{1}) {
		t.Errorf("%+v", ins)
	}
}

// TestAPipelineIsNeverMixed moves an ensemble and its parts back and forth while others ask: both parts of an answer are
// always of one pipeline.
func TestAPipelineIsNeverMixed(t *testing.T) {
	h := withBoth(t)
	for _, name := range []string{"a", "b"} {
		_, err := h.push(name, name+"2", 0, true)
		h.must(err)
	}
	_, err := h.pushEnsemble("E", both)
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
				if got := h.askBoth(edgewise.ModelID{Name: "E"}); got != "a1 b1" && got != "a2 b2" {
					t.Errorf("answered %q", got)
				}
			}
		})
	}
	for _, name := range []string{"E", "a", "b"} {
		changers.Go(func() {
			for round := range 20 {
				if _, err := h.SetLabel(t.Context(), name, "live", int64(round%2)+1); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	changers.Go(func() {
		for round := range 20 {
			id := edgewise.ModelID{Name: []string{"a", "b"}[round%2], Version: int64(round/2%2) + 1}
			if err := h.DeleteVersion(t.Context(), id); err == nil || edgewise.KindOf(err) != edgewise.Conflict {
				t.Errorf("deleting %v: %v", id, err)
			}
			if err := h.Unload(t.Context(), id.Name); err == nil || edgewise.KindOf(err) != edgewise.Conflict {
				t.Errorf("unloading %q: %v", id.Name, err)
			}
		}
	})
	changers.Wait()
	close(stop)
	clients.Wait()
}

// TestADeletionAndAPinNeverBothWin lets an ensemble be pushed while a version that it names is deleted.
func TestADeletionAndAPinNeverBothWin(t *testing.T) {
	h := withBoth(t)
	for i := range 20 {
		v, err := h.push("a", fmt.Sprint("content ", i), 0, false)
		h.must(err)
		var pushed, deleted error
		var sides sync.WaitGroup
		sides.Go(func() {
			_, pushed = h.pushEnsemble(fmt.Sprint("E", i), strings.Replace(both, "-1", fmt.Sprint(v.ID.Version), 1))
		})
		sides.Go(func() { deleted = h.DeleteVersion(t.Context(), v.ID) })
		sides.Wait()
		if (pushed == nil) == (deleted == nil) {
			t.Errorf("pushed: %v; deleted: %v", pushed, deleted)
		}
	}
}
