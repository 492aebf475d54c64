package registry_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/models"
)

// fixture is a registry whose models are served.
type fixture struct{ *models.Registry }

func newFixture(t *testing.T) *fixture { return newFixtureWith(t, 1<<20) }

// newFixtureWith makes a fixture whose cache of answers has a number of bytes.
func newFixtureWith(t *testing.T, cached int64) *fixture {
	t.Helper()
	h := &fixture{models.New(t, cached)}
	t.Cleanup(func() {
		if n := h.Locks(); n != 0 {
			t.Errorf("%d locks left behind", n)
		}
	})
	return h
}

// withBoth makes a fixture with a, b and the ensemble E.
func withBoth(t *testing.T) *fixture {
	t.Helper()
	h := newFixture(t)
	h.PushBoth()
	return h
}

func TestPushPromoteRollback(t *testing.T) {
	h := newFixture(t)
	for i, content := range []string{"one", "two", "three"} {
		v, err := h.PushFile("m", content, 0, true)
		h.Must(err)
		if v.ID.Version != int64(i+1) {
			t.Errorf("version %d, want %d", v.ID.Version, i+1)
		}
		h.WantAnswer("m", content)
	}
	for _, want := range []string{"two", "one"} {
		_, err := h.Rollback(t.Context(), "m", "live")
		h.Must(err)
		h.WantAnswer("m", want)
	}
	if _, err := h.Rollback(t.Context(), "m", "live"); err == nil || edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("a rollback beyond the first version: %v", err)
	}
	_, err := h.SetLabel(t.Context(), "m", "live", 3)
	h.Must(err)
	h.WantAnswer("m", "three")
	h.Must(h.Manager.Settle(t.Context(), "m"))
	if n := h.Backend.Loaded.Load(); n != 1 {
		t.Errorf("%d versions are loaded, want the live one", n)
	}
}

func TestABrokenVersionIsStoredAndNeverLive(t *testing.T) {
	h := newFixture(t)
	_, err := h.PushFile("m", "good", 0, true)
	h.Must(err)
	v, err := h.PushFile("m", "x", 0, true)
	want := `model "m" version 2 is stored but was not made live: load failed for model 'm': version 2 is at ` +
		`UNAVAILABLE state: broken on purpose;`
	if err == nil || err.Error() != want || edgewise.KindOf(err) != edgewise.Invalid || v.ID.Version != 2 {
		t.Errorf("got %v, want %s", err, want)
	}
	h.WantAnswer("m", "good")
	if _, err := h.SetLabel(t.Context(), "m", "live", 2); err == nil {
		t.Error("a broken version was made live")
	}
	h.WantAnswer("m", "good")
	if !h.Manager.Ready() {
		t.Error("the box is not ready because of a version that nobody serves")
	}
}

func TestLabelsOfVersionsThatAreNotThere(t *testing.T) {
	h := newFixture(t)
	_, err := h.PushFile("m", "one", 0, false)
	h.Must(err)
	h.WantAnswer("m", "not_found")
	for _, test := range []struct {
		name, label string
		version     int64
		kind        edgewise.Kind
	}{
		{"m", "live", 7, edgewise.NotFound},
		{"nobody", "live", 1, edgewise.NotFound},
		{"m", "7", 1, edgewise.Invalid},
	} {
		if _, err := h.SetLabel(t.Context(), test.name, test.label, test.version); err == nil || edgewise.KindOf(err) != test.kind {
			t.Errorf("label %q of %q to %d: %v, want %v", test.label, test.name, test.version, err, test.kind)
		}
	}
}

func TestLoadWithoutALiveVersionTakesTheHighest(t *testing.T) {
	h := newFixture(t)
	for _, content := range []string{"one", "two"} {
		_, err := h.PushFile("m", content, 0, false)
		h.Must(err)
	}
	h.Must(h.Load(t.Context(), "m"))
	h.WantAnswer("m", "two")
	h.Must(h.Unload(t.Context(), "m"))
	h.WantAnswer("m", "not_found")
	h.Must(h.Load(t.Context(), "m"))
	h.WantAnswer("m", "two")
	if err := h.Load(t.Context(), "nobody"); err == nil || edgewise.KindOf(err) != edgewise.NotFound {
		t.Errorf("loading a model that is not there: %v", err)
	}
}

// TestADeletedModelNeverAnswersForItsSuccessor gives a new model the name of a deleted one while the old is in use.
func TestADeletedModelNeverAnswersForItsSuccessor(t *testing.T) {
	h := newFixture(t)
	for i := range 10 {
		content := fmt.Sprint("content ", i)
		_, err := h.PushFile("m", content, 0, true)
		h.Must(err)
		h.WantAnswer("m", content)
		h.Must(h.DeleteModel(t.Context(), "m"))
		h.WantAnswer("m", "not_found")
	}
}

func TestDeleteVersion(t *testing.T) {
	h := newFixture(t)
	for _, content := range []string{"one", "two"} {
		_, err := h.PushFile("m", content, 0, true)
		h.Must(err)
	}
	if err := h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "m", Version: 2}); err == nil || edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("deleting the live version: %v", err)
	}
	h.Must(h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "m", Version: 1}))
	if _, err := h.Rollback(t.Context(), "m", "live"); err == nil || edgewise.KindOf(err) != edgewise.Conflict {
		t.Errorf("rolling back to a deleted version: %v", err)
	}
	h.WantAnswer("m", "two")
}

func TestOneOfTwoUploadsOfAVersionWins(t *testing.T) {
	h := newFixture(t)
	var won, lost atomic.Int64
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			_, err := h.PushFile("m", fmt.Sprint("content ", i), 5, true)
			switch {
			case err == nil:
				won.Add(1)
			case edgewise.KindOf(err) == edgewise.Exists:
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if won.Load() != 1 || lost.Load() != 7 {
		t.Errorf("%d uploads of one version won, %d lost", won.Load(), lost.Load())
	}
}

// TestEverythingAtOnce changes one model from many sides while others ask it: every answer is a content that was
// pushed, and at the end what is stored and what answers agree.
func TestEverythingAtOnce(t *testing.T) {
	h := newFixture(t)
	_, err := h.PushFile("m", "v1", 1, true)
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
				if got := h.Ask("m"); !strings.HasPrefix(got, "v") {
					t.Errorf("answered %q", got)
				}
			}
		})
	}
	expected := map[edgewise.Kind]bool{edgewise.Conflict: true, edgewise.NotFound: true, edgewise.Invalid: true, edgewise.Unavailable: true}
	for side := range 4 {
		changers.Go(func() {
			for round := range 10 {
				var err error
				switch (side + round) % 4 {
				case 0:
					_, err = h.PushFile("m", fmt.Sprintf("v%d.%d", side, round), 0, true)
				case 1:
					_, err = h.Rollback(t.Context(), "m", "live")
				case 2:
					_, err = h.PushFile("m", "x", 0, true)
				case 3:
					err = h.DeleteVersion(t.Context(), edgewise.ModelID{Name: "m", Version: int64(round)})
				}
				if err != nil && !expected[edgewise.KindOf(err)] {
					t.Errorf("side %d round %d: %v", side, round, err)
				}
			}
		})
	}
	changers.Wait()
	close(stop)
	clients.Wait()
	h.Must(h.Manager.Settle(t.Context(), "m"))
	record, err := h.Record("m")
	h.Must(err)
	v, _, err := h.Manager.Version(edgewise.ModelID{Name: "m"})
	h.Must(err)
	if live := record.Label("live"); v.ID.Version != live {
		t.Errorf("version %d answers, live is %d", v.ID.Version, live)
	}
}

func TestUploadsWithoutSense(t *testing.T) {
	h := newFixture(t)
	if _, err := h.PushFile("../m", "x", 0, true); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
		t.Errorf("a bad name: %v", err)
	}
	none := edgewise.Upload{Model: "m", Size: -1, Next: func() (string, int64, io.Reader, error) { return "", 0, nil, io.EOF }}
	if _, err := h.Push(t.Context(), none, true); err == nil || err.Error() != `model "m": the upload holds no file` {
		t.Errorf("an empty upload: %v", err)
	}
	if len(h.Records()) != 0 {
		t.Errorf("stored: %v", h.Records())
	}
}
