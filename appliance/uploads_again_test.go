package appliance

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// unloadable is a model that is understood and that no runtime loads: its matrices do not fit.
func unloadable() []byte { return unloadableOf(1) }

// unloadableOf is one of several of them.
func unloadableOf(bias float32) []byte {
	m := &onnxgen.Model{Graph: onnxgen.Graph{
		Nodes:        []onnxgen.Node{{Op: "MatMul", In: []string{"x", "bias"}, Out: []string{"y"}}},
		Initializers: []onnxgen.Tensor{onnxgen.Floats("bias", []int64{3, 3}, bias, 1, 1, 1, 1, 1, 1, 1, 1)},
		Inputs:       []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
		Outputs:      []onnxgen.Value{{Name: "y", Type: onnxgen.Float, Dims: onnxgen.Batch(4)}},
	}}
	return m.Bytes()
}

// TestAnUploadThatWasNotUnderstoodDoesNotGoOn has one good and one bad model in an archive.
func TestAnUploadThatWasNotUnderstoodDoesNotGoOn(t *testing.T) {
	_, anna := runReal(t)
	j := anna.settled(anna.upload("two.zip", zipOf(t, "a/1/model.onnx", string(onnxgen.MLP(1).Bytes()), "b/1/model.onnx",
		"%PDF-1.7 and more"), nil))
	if j.State != admin.JobFailed || j.Resumable || !strings.Contains(states(j), "inspect:failed") {
		t.Fatalf("%s resumable %v: %s", j.State, j.Resumable, states(j))
	}
	if status, text := anna.ask("POST", "/api/v1/jobs/"+j.ID+"/activate", nil, nil); status != 409 {
		t.Errorf("%d %s", status, text)
	}
}

// TestAnotherNameIsAnotherModel goes on with an upload that was stored under one name and did not load, under the name
// of a model that serves.
func TestAnotherNameIsAnotherModel(t *testing.T) {
	_, anna := runReal(t)
	anna.live("net", adding(1))
	anna.live("net", adding(2))
	j := anna.settled(anna.upload("other.onnx", unloadable(), map[string]string{"activate": "true"}))
	if j.State != admin.JobFailed || !j.Resumable || !strings.Contains(states(j), "store:done load:failed") {
		t.Errorf("%s resumable %v: %s", j.State, j.Resumable, states(j))
	}
	if status, text := anna.ask("POST", "/api/v1/jobs/"+j.ID+"/activate", admin.Activate{Model: "net"}, nil); status != 202 {
		t.Fatalf("%d %s", status, text)
	}
	if again := anna.settled(j.ID); again.State != admin.JobFailed || !strings.Contains(states(again), "load:failed") ||
		again.Understood.Models[0].Stored != 3 {
		t.Errorf("%s: %s, stored as %+v", again.State, states(again), again.Understood.Models)
	}
	var m admin.Model
	if anna.ask("GET", "/api/v1/models/net", nil, &m); m.Label("live") != 2 || len(m.Versions) != 3 {
		t.Errorf("version %d of %d is live, want 2 of 3", m.Label("live"), len(m.Versions))
	}
}

// TestABatchSizeCanBeChosenAgain goes on twice with an upload that does not load.
func TestABatchSizeCanBeChosenAgain(t *testing.T) {
	_, anna := runReal(t)
	j := anna.settled(anna.upload("net.onnx", unloadable(), nil))
	for i, size := range []int32{4, 8} {
		if status, text := anna.ask("POST", "/api/v1/jobs/"+j.ID+"/activate", admin.Activate{MaxBatchSize: &size}, nil); status != 202 {
			t.Fatalf("%d: %d %s", size, status, text)
		}
		if j = anna.settled(j.ID); j.State != admin.JobFailed || j.Understood.Models[0].Stored != int64(i+1) {
			t.Fatalf("%d: %s: %s, stored as %+v", size, j.State, states(j), j.Understood.Models)
		}
	}
	var m admin.Model
	anna.ask("GET", "/api/v1/models/net", nil, &m)
	if len(m.Versions) != 1 || m.Versions[0].Version != 2 { // the second attempt has replaced the first
		t.Errorf("versions %+v", m.Versions)
	}
}

// TestAnUploadThatHasExpiredDoesNotGoOn waits for a person who does not come.
func TestAnUploadThatHasExpiredDoesNotGoOn(t *testing.T) {
	h, anna := runReal(t)
	j := anna.settled(anna.upload("net.onnx", onnxgen.MLP(1).Bytes(), nil))
	if j.State != admin.JobStaged {
		t.Fatalf("%s: %s", j.State, states(j))
	}
	h.app.importer.Expire([]string{j.ID})
	var over admin.Job
	if anna.ask("GET", "/api/v1/jobs/"+j.ID, nil, &over); over.State != admin.JobCanceled || over.Resumable || over.Ended.IsZero() {
		t.Errorf("%s resumable %v, ended %v", over.State, over.Resumable, over.Ended)
	}
	if status, text := anna.ask("POST", "/api/v1/jobs/"+j.ID+"/activate", nil, nil); status != 409 {
		t.Errorf("%d %s", status, text)
	}
}
