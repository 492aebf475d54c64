package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/models"
)

func TestAnEnsembleKeepsWhatItWasPinnedTo(t *testing.T) {
	h := withBoth(t)
	h.WantBoth("a1 b1")
	_, err := h.PushFile("a", "a2", 0, true)
	h.Must(err)
	h.WantAnswer("a", "a2")
	h.WantBoth("a1 b1")
	second, err := h.PushEnsemble("E", models.Both)
	h.Must(err)
	h.WantBoth("a2 b1")
	first := h.Lookup("E").Version(1)
	if first.Digest == second.Digest {
		t.Error("two pipelines of different parts have one digest")
	}
	if pin := second.Model.EnsembleScheduling.Step[0].Pinned; pin.Version != 2 || pin.Digest != h.Lookup("a").Version(2).Digest {
		t.Errorf("pinned to %+v", pin)
	}
	h.Must(h.Manager.Settle(t.Context(), "E"))
	h.Must(h.Manager.Settle(t.Context(), "a"))
	if n := h.Backend.Loaded.Load(); n != 2 {
		t.Errorf("%d instances are loaded, want a2 and b1", n)
	}
	_, err = h.Rollback(t.Context(), "E", "live")
	h.Must(err)
	h.WantBoth("a1 b1")
	h.WantAnswer("a", "a2")
}

func TestTheSamePipelineHasTheSameDigest(t *testing.T) {
	h := withBoth(t)
	again, err := h.PushEnsemble("E", models.Both)
	h.Must(err)
	if first := h.Lookup("E").Version(1); first.Digest != again.Digest {
		t.Error("a pipeline that was pushed twice has two digests")
	}
}

func TestWhatAnEnsembleRunsIsNotTakenFromIt(t *testing.T) {
	h := withBoth(t)
	_, err := h.PushFile("a", "a2", 0, true)
	h.Must(err)
	h.WantRefusal(h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "a", Version: 1}), edgewise.Conflict,
		`model "a" version 1 cannot be deleted while an ensemble pins it: "E" version 1: delete that first`)
	h.WantRefusal(h.DeleteModel(t.Context(), "b"), edgewise.Conflict,
		`model "b" cannot be deleted while an ensemble pins it: "E" version 1: delete that first`)
	h.WantRefusal(h.Unload(t.Context(), "a"), edgewise.Conflict,
		`model "a" cannot be unloaded while an ensemble runs it: "E" version 1: unload that first`)
	h.WantBoth("a1 b1")

	h.Must(h.Unload(t.Context(), "E"))
	h.Must(h.Unload(t.Context(), "a"))
	h.WantBoth("not_found")
	h.WantAnswer("a", "not_found")
	h.WantRefusal(h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "a", Version: 1}), edgewise.Conflict,
		`model "a" version 1 cannot be deleted while an ensemble pins it: "E" version 1: delete that first`)

	h.Must(h.Load(t.Context(), "E")) // and with it its parts
	h.WantBoth("a1 b1")
	h.WantAnswer("a", "not_found")
	h.Must(h.Unload(t.Context(), "E"))
	for _, name := range []string{"E", "a", "b"} {
		h.Must(h.Manager.Settle(t.Context(), name))
	}
	if n := h.Backend.Loaded.Load(); n != 1 {
		t.Errorf("%d instances are loaded, want b, which is live", n)
	}
	h.Must(h.DeleteModel(t.Context(), "E"))
	h.Must(h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "a", Version: 1}))
	h.Must(h.DeleteModel(t.Context(), "b"))
}

func TestAnEnsembleInsideAnotherHoldsItsParts(t *testing.T) {
	h := withBoth(t)
	outer := strings.NewReplacer(`model_name: "b"`, `model_name: "E"`, `key: "out" value: "second"`,
		`key: "second" value: "second"`).Replace(models.Both)
	_, err := h.PushEnsemble("outer", outer)
	h.Must(err)
	if got := h.AskBoth(edgewise.ModelID{Name: "outer"}); got != "a1 b1" {
		t.Errorf("answered %q", got)
	}
	h.WantRefusal(h.Unload(t.Context(), "E"), edgewise.Conflict,
		`model "E" cannot be unloaded while an ensemble runs it: "outer" version 1: unload that first`)
	h.WantRefusal(h.Unload(t.Context(), "b"), edgewise.Conflict,
		`model "b" cannot be unloaded while an ensemble runs it: "E" version 1, "outer" version 1: unload that first`)
	_, err = h.PushEnsemble("E", strings.ReplaceAll(outer, `model_name: "E"`, `model_name: "outer"`))
	h.WantRefusal(err, edgewise.Invalid, "in ensemble 'E', it contains itself: E -> outer -> E")
}

func TestEnsemblesThatAreRefusedAreNotStored(t *testing.T) {
	h := newFixture(t)
	_, err := h.PushEnsemble("E", models.Both)
	h.WantRefusal(err, edgewise.NotFound,
		"in ensemble 'E', step 0: there is no model 'a' on this box\nin ensemble 'E', step 1: there is no model 'b' on this box")
	_, err = h.PushFile("a", "a1", 0, true)
	h.Must(err)
	_, err = h.PushFile("b", "b1", 0, false)
	h.Must(err)
	_, err = h.PushEnsemble("E", models.Both)
	h.WantRefusal(err, edgewise.Conflict,
		"in ensemble 'E', step 1: model 'b' has no live version: promote one, or name a version in model_version")
	_, err = h.PushEnsemble("E", strings.ReplaceAll(models.Both, "TYPE_STRING", "TYPE_FP32"))
	if err == nil {
		t.Error("an ensemble of other types was stored")
	}
	_, err = h.PushEnsemble("E", `platform: "ensemble" output { name: "y" data_type: TYPE_FP32 dims: 1 }`)
	h.WantRefusal(err, edgewise.Invalid, `in ensemble 'E', ensemble_scheduling is missing: platform "ensemble" needs its steps`)
	_, err = h.Push(t.Context(), models.Upload("E", models.File{"config.pbtxt", strings.Replace(models.Both, `"ensemble"`,
		`"onnxruntime_onnx"`, 1)}, models.File{"model.onnx", "x"}), true)
	if err == nil || !strings.Contains(err.Error(), `in ensemble 'E', platform is "onnxruntime_onnx"`) {
		t.Errorf("an ensemble with a model file: %v", err)
	}
	if h.Lookup("E") != nil {
		t.Error("a refused ensemble is stored")
	}
	_, err = h.PushEnsemble("E", strings.Replace(models.Both, `model_name: "b" model_version: -1`, `model_name: "b" model_version: 1`, 1))
	h.Must(err)
	h.WantBoth("a1 b1")
}

func TestAnEnsembleOfAPartThatDoesNotLoadIsNotLive(t *testing.T) {
	h := withBoth(t)
	_, err := h.PushFile("a", "x", 0, false)
	h.Must(err)
	v, err := h.PushEnsemble("E", strings.Replace(models.Both, "-1", "2", 1))
	want := `model "E" version 2 is stored but was not made live: load failed for model 'E': version 2 is at ` +
		`UNAVAILABLE state: in ensemble 'E', ` +
		`load failed for model 'a': version 2 is at UNAVAILABLE state: broken on purpose;;`
	h.WantRefusal(err, edgewise.Invalid, want)
	if v == nil || v.ID.Version != 2 {
		t.Errorf("stored as %v", v)
	}
	h.WantBoth("a1 b1")
	h.Must(h.Manager.Settle(t.Context(), "E"))
	h.Must(h.Manager.Settle(t.Context(), "a"))
	if !h.Manager.Ready() {
		t.Error("the box is not ready because of a version that nobody serves")
	}
}

func TestEnsemblesComeBackAfterARestart(t *testing.T) {
	h := withBoth(t)
	h.Must(h.Unload(t.Context(), "E"))
	h.Must(h.Unload(t.Context(), "a"))
	h.Must(h.Load(t.Context(), "E"))
	h.Restart()
	h.Must(h.Manager.Settle(t.Context(), "E"))
	h.WantBoth("a1 b1")
	h.WantAnswer("a", "not_found")
	if !h.Manager.Ready() {
		t.Error("the box is not ready")
	}
}

func TestLabelsOfAnEnsembleAreThoseOfItsParts(t *testing.T) {
	h := newFixture(t)
	config := `input { name: "in" data_type: TYPE_STRING dims: 1 } output { name: "out" data_type: TYPE_STRING dims: 1 ` +
		`label_filename: "labels.txt" }`
	_, err := h.Push(t.Context(), models.Upload("a", models.File{"model.onnx", "a1"}, models.File{"config.pbtxt", config},
		models.File{"labels.txt", "cat\ndog\n"}), true)
	h.Must(err)
	_, err = h.PushFile("b", "b1", 0, true)
	h.Must(err)
	_, err = h.PushEnsemble("E", models.Both)
	h.Must(err)
	id := edgewise.ModelID{Name: "E", Version: 1}
	if got := h.Classes(id, "first"); !slices.Equal(got, []string{"cat", "dog"}) {
		t.Errorf("labels %q", got)
	}
	if got := h.Classes(id, "second"); len(got) != 0 {
		t.Errorf("labels %q of a model without", got)
	}
}

func TestWhatIsReadOfAnEnsemble(t *testing.T) {
	h := withBoth(t)
	ins, err := h.Inspect(t.Context(), edgewise.ModelID{Name: "E", Version: 1})
	h.Must(err)
	if fmt.Sprint(ins.Steps) != `["a" version 1 "b" version 1]` || len(ins.Inputs) != 1 || len(ins.Outputs) != 2 ||
		ins.Inputs[0].Datatype != "BYTES" || !ins.Outputs[1].Shape.Equal(edgewise.Shape{1}) {
		t.Errorf("%+v", ins)
	}
}

// TestAPipelineIsNeverMixed moves an ensemble and its parts back and forth while others ask: both parts of an answer are
// always of one pipeline.
func TestAPipelineIsNeverMixed(t *testing.T) {
	h := withBoth(t)
	for _, name := range []string{"a", "b"} {
		_, err := h.PushFile(name, name+"2", 0, true)
		h.Must(err)
	}
	_, err := h.PushEnsemble("E", models.Both)
	h.Must(err)
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
				if got := h.AskBoth(edgewise.ModelID{Name: "E"}); got != "a1 b1" && got != "a2 b2" {
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
		v, err := h.PushFile("a", fmt.Sprint("content ", i), 0, false)
		h.Must(err)
		var pushed, deleted error
		var sides sync.WaitGroup
		sides.Go(func() {
			_, pushed = h.PushEnsemble(fmt.Sprint("E", i), strings.Replace(models.Both, "-1", fmt.Sprint(v.ID.Version), 1))
		})
		sides.Go(func() { deleted = h.DeleteVersion(t.Context(), v.ID) })
		sides.Wait()
		if (pushed == nil) == (deleted == nil) {
			t.Errorf("pushed: %v; deleted: %v", pushed, deleted)
		}
	}
}

func TestAPushReportsEveryFaultOfAnEnsemble(t *testing.T) {
	h := newFixture(t)
	for _, name := range []string{"a", "b"} {
		_, err := h.PushFile(name, name, 0, true)
		h.Must(err)
	}
	_, err := h.Push(t.Context(), models.Upload("E", models.File{"config.json", models.Faulty}), true)
	models.WantFaults(t, err.Error(), "step 1: there is no model 'dog' on this box")
}
