package registry_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/models"
)

func (h *fixture) wantNumbers(want ...int64) {
	h.T.Helper()
	if got := h.Numbers("m"); !slices.Equal(got, want) {
		h.T.Errorf("versions %v are stored, want %v", got, want)
	}
}

func TestTheNextUploadReplacesAVersionThatFailedToLoad(t *testing.T) {
	h := newFixture(t)
	_, err := h.PushFile("m", "good", 0, true)
	h.Must(err)
	for range 5 {
		if _, err := h.PushFile("m", "x", 0, true); err == nil {
			t.Fatal("a broken version is live")
		}
	}
	h.wantNumbers(1, 6) // the last one stays for whoever wants to look at it; its number and those before are never used again
	v, err := h.PushFile("m", "mended", 0, true)
	h.Must(err)
	if v.ID.Version != 7 {
		t.Errorf("stored as version %d", v.ID.Version)
	}
	h.wantNumbers(1, 7)
	h.WantAnswer("m", "mended")
	_, err = h.Rollback(t.Context(), "m", "live")
	h.Must(err)
	h.WantAnswer("m", "good")
}

func TestWhatAnyoneAskedToKeepIsNotReplaced(t *testing.T) {
	h := newFixture(t)
	fails := func(version int64) edgewise.ModelID {
		v, err := h.PushFile("m", "x", version, true)
		if err == nil {
			t.Fatal("a broken version is live")
		}
		return v.ID
	}
	fails(5) // its number was chosen
	staged, err := h.PushFile("m", "x", 0, false)
	h.Must(err)
	if _, err := h.SetLabel(t.Context(), "m", "live", staged.ID.Version); err == nil {
		t.Fatal("a broken version is live")
	}
	noted := fails(0)
	h.Keep(noted) // as notes do that a person writes about it
	pinned := fails(0)
	config := fmt.Sprintf(`platform: "ensemble"
input { name: "in" data_type: TYPE_STRING dims: 1 }
output { name: "out" data_type: TYPE_STRING dims: 1 }
ensemble_scheduling { step { model_name: "m" model_version: %d input_map { key: "in" value: "in" }
  output_map { key: "out" value: "out" } } }`, pinned.Version)
	_, err = h.Push(t.Context(), models.Upload("E", models.File{"config.pbtxt", config}), false)
	h.Must(err)
	_, err = h.PushFile("m", "good", 0, true)
	h.Must(err)
	h.wantNumbers(5, 6, 7, 8, 9)
	// One that loads later is an ordinary version, and a model of the same name begins without a past.
	fails(0)
	h.Must(h.DeleteModel(t.Context(), "E"))
	h.Must(h.DeleteModel(t.Context(), "m"))
	if list, err := h.FailedVersions("m"); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestALoadThatWorksLaterKeepsTheVersion has a version that fails for want of something that comes later.
func TestALoadThatWorksLaterKeepsTheVersion(t *testing.T) {
	h := newFixture(t)
	v, err := h.PushFile("m", "good", 0, false)
	h.Must(err)
	h.AddFailed(v.ID, edgewise.Errorf("test", edgewise.Exhausted, "no memory is left"))
	_, err = h.SetLabel(t.Context(), "m", "live", v.ID.Version)
	h.Must(err)
	_, err = h.PushFile("m", "next", 0, true)
	h.Must(err)
	h.wantNumbers(1, 2)
}
