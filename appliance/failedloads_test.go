package appliance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// numbers lists the versions of a model that are stored.
func (h *house) numbers(name string) (list []int64) {
	h.t.Helper()
	r, err := h.store.Record(name)
	h.must(err)
	for _, v := range r.Versions {
		list = append(list, v.ID.Version)
	}
	return list
}

func (h *house) wantNumbers(want ...int64) {
	h.t.Helper()
	if got := h.numbers("m"); !slices.Equal(got, want) {
		h.t.Errorf("versions %v are stored, want %v", got, want)
	}
}

func TestTheNextUploadReplacesAVersionThatFailedToLoad(t *testing.T) {
	h := newHouse(t)
	_, err := h.push("m", "good", 0, true)
	h.must(err)
	for range 5 {
		if _, err := h.push("m", "x", 0, true); err == nil {
			t.Fatal("a broken version is live")
		}
	}
	h.wantNumbers(1, 6) // the last one stays for whoever wants to look at it; its number and those before are never used again
	v, err := h.push("m", "mended", 0, true)
	h.must(err)
	if v.ID.Version != 7 {
		t.Errorf("stored as version %d", v.ID.Version)
	}
	h.wantNumbers(1, 7)
	h.wantAnswer("m", "mended")
	_, err = h.Rollback(t.Context(), "m", "live")
	h.must(err)
	h.wantAnswer("m", "good")
}

func TestWhatAnyoneAskedToKeepIsNotReplaced(t *testing.T) {
	h := newHouse(t)
	fails := func(version int64) edgewise.ModelID {
		v, err := h.push("m", "x", version, true)
		if err == nil {
			t.Fatal("a broken version is live")
		}
		return v.ID
	}
	fails(5) // its number was chosen
	staged, err := h.push("m", "x", 0, false)
	h.must(err)
	if _, err := h.SetLabel(t.Context(), "m", "live", staged.ID.Version); err == nil {
		t.Fatal("a broken version is live")
	}
	noted := fails(0)
	h.failed.keep(noted) // as notes do that a person writes about it
	pinned := fails(0)
	config := fmt.Sprintf(`platform: "ensemble"
input { name: "in" data_type: TYPE_STRING dims: 1 }
output { name: "out" data_type: TYPE_STRING dims: 1 }
ensemble_scheduling { step { model_name: "m" model_version: %d input_map { key: "in" value: "in" } output_map { key: "out" value: "out" } } }`, pinned.Version)
	_, err = h.Push(t.Context(), uploadOf("E", file{"config.pbtxt", config}), false)
	h.must(err)
	_, err = h.push("m", "good", 0, true)
	h.must(err)
	h.wantNumbers(5, 6, 7, 8, 9)
	// One that loads later is an ordinary version, and a model of the same name begins without a past.
	fails(0)
	h.must(h.DeleteModel(t.Context(), "E"))
	h.must(h.DeleteModel(t.Context(), "m"))
	if list, err := h.failed.notes.versions("m"); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestALoadThatWorksLaterKeepsTheVersion has a version that fails for want of something that comes later.
func TestALoadThatWorksLaterKeepsTheVersion(t *testing.T) {
	h := newHouse(t)
	v, err := h.push("m", "good", 0, false)
	h.must(err)
	h.failed.add(v.ID, edgewise.Errorf("test", edgewise.Exhausted, "no memory is left"))
	_, err = h.SetLabel(t.Context(), "m", "live", v.ID.Version)
	h.must(err)
	_, err = h.push("m", "next", 0, true)
	h.must(err)
	h.wantNumbers(1, 2)
}

func TestARepositorysFailedLoadsDoNotPileUp(t *testing.T) {
	f := newFolder(t, config.ControlPoll)
	p := &poller{sources: f.sources, tried: map[string]string{}}
	f.write("m/1/model.onnx", "good")
	p.look(t.Context())
	f.wantAnswer("m", "good")
	for i := range 4 {
		f.write("m/1/model.onnx", "x")
		f.write("m/1/more", fmt.Sprint(i))
		p.look(t.Context())
		f.wantAnswer("m", "good")
		if n := f.numbers("m"); len(n) > 2 {
			t.Errorf("after %d failures %v are stored", i+1, n)
		}
	}
	f.write("m/1/model.onnx", "mended")
	p.look(t.Context())
	f.wantAnswer("m", "mended")
	f.eventually("one version", func() bool { return len(f.numbers("m")) == 1 })
}

func TestUploadsThatFailToLoadDoNotPileUp(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	for i := range 3 {
		broken := unloadableOf(float32(2 + i))
		res := anna.tus("POST", "/api/v1/models/net/versions?promote=true&file=model.onnx", broken, "Content-Type", "application/octet-stream")
		if res.StatusCode != 400 || !strings.Contains(res.Header.Get("X-Body"), "stored but was not made live") {
			t.Errorf("%d %s", res.StatusCode, res.Header.Get("X-Body"))
		}
	}
	job := anna.settled(anna.upload("net.onnx", unloadable(), map[string]string{"activate": "true"}))
	if job.State != admin.JobFailed {
		t.Errorf("%s", states(job))
	}
	anna.live("net", adding(2)) // and the job's version has gone with that
	var m admin.Model
	if anna.ask("GET", "/api/v1/models/net", nil, &m); len(m.Versions) != 2 || m.Label("live") != 6 {
		t.Errorf("version %d of %d is live, want 6 of 2", m.Label("live"), len(m.Versions))
	}
	var deployments []admin.Deployment
	anna.ask("GET", "/api/v1/models/net/deployments?limit=10", nil, &deployments)
	if len(deployments) != 6 || deployments[1].Done || deployments[1].Error == "" {
		t.Errorf("the history: %+v", deployments)
	}
	// A job whose version was replaced stores it again.
	if status, text := anna.ask("POST", "/api/v1/jobs/"+job.ID+"/activate", admin.Activate{}, nil); status != 202 {
		t.Fatalf("%d %s", status, text)
	}
	if again := anna.settled(job.ID); again.Understood.Models[0].Stored != 7 {
		t.Errorf("stored as %d: %s", again.Understood.Models[0].Stored, states(again))
	}
	anna.ask("PATCH", "/api/v1/models/net/versions/7", admin.Notes{Notes: "keep it for the vendor"}, nil)
	anna.live("net", adding(3))
	if anna.ask("GET", "/api/v1/models/net", nil, &m); len(m.Versions) != 4 {
		t.Errorf("%d versions, want 2, 6, 7 with its notes, and 8", len(m.Versions))
	}
}
