package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/real"
)

// TestWhatTheBoxCanCarryIsPredictedAndChecked asks about models of the demo: a rate that every machine carries, with a run
// of it, and one that none does. What is said between the two depends on the machine, and is not asked.
func TestWhatTheBoxCanCarryIsPredictedAndChecked(t *testing.T) {
	b := serveReady(t, t.TempDir(), "--import", real.Models(t))
	const rate = "ocr_direction=0.5"
	out := b.must("capacity", rate, "face=0.5,p99=20s", "--check", "--seconds", "4s")
	contains(t, "the answer", out, "feasible: all rates may grow", "RESOURCE", "cores", "memory", "p99 of face", "CHECK", "it held")

	out, _, code := b.run("capacity", "ocr_direction=100000", "face=1")
	if code == 0 || !strings.Contains(out, "not feasible: ") || !strings.Contains(out, "breaks first") {
		t.Errorf("an absurd rate: %d\n%s", code, out)
	}
	found, err := b.client.Capacity(t.Context(), admin.CapacityRequest{Models: []admin.CapacityModel{{Model: "ocr_direction", Rate: 100000}}})
	if err != nil || found.Feasible || found.Factor >= 1 || found.Breaks != "cores" && found.Breaks != "instances of ocr_direction" {
		t.Errorf("%+v, %v", found, err)
	}
	late, err := b.client.Capacity(t.Context(), admin.CapacityRequest{Models: []admin.CapacityModel{{Model: "face", Rate: 0.1, P99: 1e-6}}})
	if err != nil || late.Feasible || late.Breaks != "p99 of face" {
		t.Errorf("a latency that cannot be: %+v, %v", late, err)
	}

	file := filepath.Join(t.TempDir(), "load.json")
	text, err := json.Marshal(admin.CapacityRequest{Models: []admin.CapacityModel{{Model: "face", Rate: 0.5}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, "the answer about a file", b.must("capacity", "--file", file), "feasible: ")
	contains(t, "the answer about a model that takes no random numbers", b.must("capacity", "vad_stream=1"), "warmup")
	b.refuses(2, []string{"ocr=5,p99=300ms"}, "capacity", "face")
	b.refuses(3, []string{"nothing"}, "capacity", "nothing=1")
	b.refuses(4, []string{"named twice"}, "capacity", "face=1", "face=2")
	status, answer := b.send(http.MethodPost, "/api/v1/capacity", []byte(`{"models":[{"model":"face","rate":-1}]}`), "Content-Type",
		"application/json")
	if status != http.StatusBadRequest || !strings.Contains(answer, "want more than 0") {
		t.Errorf("%d %s", status, answer)
	}
}
