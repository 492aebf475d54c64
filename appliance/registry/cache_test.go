package registry_test

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/models"
)

// caching uploads a version whose answers are to be kept.
func (h *fixture) caching(content string) error {
	_, err := h.Push(h.T.Context(), models.Upload("m", models.File{"model.onnx", content},
		models.File{"config.pbtxt", "response_cache { enable: true }"}), true)
	return err
}

func TestAModelThatAsksForItIsAnsweredFromTheCache(t *testing.T) {
	h := newFixture(t)
	runs := 0
	h.Backend.Hook = func(stage, _ string) error {
		if stage == "run" {
			runs++
		}
		return nil
	}
	h.Must(h.caching("one"))
	for range 3 {
		h.WantAnswer("m", "one")
	}
	if runs != 1 || h.Answers.Usage().Entries != 1 {
		t.Errorf("%d runs, cache %+v", runs, h.Answers.Usage())
	}
	h.Must(h.caching("two"))
	h.WantAnswer("m", "two")
	h.Must(h.Manager.Settle(t.Context(), "m"))
	if runs != 2 || h.Answers.Usage().Entries != 1 {
		t.Errorf("%d runs, cache %+v after a new version", runs, h.Answers.Usage())
	}
	_, err := h.Rollback(t.Context(), "m", "live")
	h.Must(err)
	h.WantAnswer("m", "one")
	if runs != 3 {
		t.Errorf("%d runs: the answers of an unloaded version were kept", runs)
	}
}

func TestAModelThatNeedsACacheIsRefusedWhereThereIsNone(t *testing.T) {
	h := newFixtureWith(t, 0)
	err := h.caching("one")
	const want = `model "m" version 1 is stored but was not made live: load failed for model 'm': version 1 is at UNAVAILABLE state: ` +
		`model "m": response_cache.enable: this box has no cache: engine.response_cache_bytes is 0;`
	if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.Unsupported {
		t.Errorf("got %v, want %s", err, want)
	}
}
