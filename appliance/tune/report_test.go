package tune

import (
	"slices"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/store/documents"
)

// TestTheReportsOfAModelAreListedWithThoseThatHoldNoMore keeps reports of two models, one of them measured on another machine.
func TestTheReportsOfAModelAreListedWithThoseThatHoldNoMore(t *testing.T) {
	u := tuner(t)
	kept, err := documents.Open(t.TempDir(), documents.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close() })
	here := []string{"2 cores"}
	u.config.Documents, u.config.Machine = kept, func(edgewise.Format) []string { return here }
	record, err := u.config.Models.Record("m1")
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(11) {
		id := edgewise.ModelID{Name: "m1", Version: n + 2}
		record.Versions = append(record.Versions, &edgewise.Version{ID: id, Model: record.Versions[0].Model})
	}
	for _, r := range []struct {
		id       edgewise.ModelID
		base     int64
		hardware []string
	}{
		{edgewise.ModelID{Name: "m1", Version: 12}, 2, here},
		{edgewise.ModelID{Name: "m1", Version: 2}, 2, []string{"8 cores"}},
		{edgewise.ModelID{Name: "m10", Version: 1}, 1, here},
	} {
		if err := u.save(r.id, &admin.TuneReport{Base: r.base, Gain: 1.5, Hardware: r.hardware}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := u.Start(t.Context(), "m1", admin.TuneRequest{}); err != nil {
		t.Fatal(err)
	}
	got, err := u.List("m1")
	if want := []admin.TuneSummary{{Version: 2, Base: 2, Gain: 1.5, Stale: true}, {Version: 12, Base: 2, Gain: 1.5}}; err != nil ||
		!slices.Equal(got.Reports, want) || got.Latest == nil || got.Latest.State != admin.TuneQueued {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := u.List("m2"); err != nil || got.Latest != nil || got.Reports == nil || len(got.Reports) != 0 {
		t.Errorf("of a model that was never tuned: %+v, %v", got, err)
	}
	if _, err := u.List("m99"); edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("of a model that is not there: %v", err)
	}
}
