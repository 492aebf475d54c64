package appliance

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
)

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
