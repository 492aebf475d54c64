package appliance

import (
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// caching uploads a version whose answers are to be kept.
func (h *house) caching(content string) error {
	_, err := h.Push(h.t.Context(), uploadOf("m", struct{ path, content string }{"model.onnx", content},
		struct{ path, content string }{"config.pbtxt", "response_cache { enable: true }"}), true)
	return err
}

func TestAModelThatAsksForItIsAnsweredFromTheCache(t *testing.T) {
	h := newHouse(t)
	runs := 0
	h.backend.hook = func(stage, _ string) error {
		if stage == "run" {
			runs++
		}
		return nil
	}
	h.must(h.caching("one"))
	for range 3 {
		h.wantAnswer("m", "one")
	}
	if runs != 1 || h.answers.Usage().Entries != 1 {
		t.Errorf("%d runs, cache %+v", runs, h.answers.Usage())
	}
	h.must(h.caching("two"))
	h.wantAnswer("m", "two")
	h.must(h.manager.Settle(t.Context(), "m"))
	if runs != 2 || h.answers.Usage().Entries != 1 {
		t.Errorf("%d runs, cache %+v after a new version", runs, h.answers.Usage())
	}
	_, err := h.Rollback(t.Context(), "m", "live")
	h.must(err)
	h.wantAnswer("m", "one")
	if runs != 3 {
		t.Errorf("%d runs: the answers of an unloaded version were kept", runs)
	}
}

func TestAModelThatNeedsACacheIsRefusedWhereThereIsNone(t *testing.T) {
	h := newHouseWith(t, 0)
	err := h.caching("one")
	const want = `model "m" version 1 is stored but was not made live: load failed for model 'm': version 1 is at UNAVAILABLE state: ` +
		`model "m": response_cache.enable: this box has no cache: engine.response_cache_bytes is 0;`
	if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.Unsupported {
		t.Errorf("got %v, want %s", err, want)
	}
}
