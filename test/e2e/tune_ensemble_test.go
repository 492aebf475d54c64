package e2e

import (
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// twoBiases is an ensemble of two biased models.
const twoBiases = `# of two models
platform: "ensemble"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
ensemble_scheduling {
  step { model_name: "quick" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "between" } }
  step { model_name: "slow" model_version: -1 input_map { key: "x" value: "between" } output_map { key: "y" value: "y" } }
}
`

// pushTwo stores an ensemble of a quick model and one whose requests wait for others.
func (b *box) pushTwo(t *testing.T) {
	t.Helper()
	b.pushBiased(t, "quick", "max_batch_size: 8\n")
	b.pushBiased(t, "slow", waits)
	b.must("model", "push", "both", write(t, "config.pbtxt", []byte(twoBiases)))
	b.wantBias("both", "1", 2)
}

// TestAnEnsembleIsTunedWithItsPartsTogether tunes an ensemble: its new version runs a new version of the slow model, which
// stays for others as it is, answers the same, and is taken back by one rollback.
func TestAnEnsembleIsTunedWithItsPartsTogether(t *testing.T) {
	b := serveReady(t, t.TempDir())
	b.pushTwo(t)
	out := b.must("tune", "both", "--limit", "60s", "--throughput", "50")
	contains(t, "the report", out, "version 2 is live", "slow: ", "version 2 of slow, which this ensemble alone runs")
	b.wantBias("both", "2", 2)
	b.wantBias("slow", "1", 1)
	b.wantBias("quick", "1", 1)

	r, err := b.client.TuneReport(t.Context(), edgewise.ModelID{Name: "both", Version: 2})
	if err != nil || !r.Live || r.Gain < 2 || len(r.Parts) == 0 || !strings.HasPrefix(r.Searched[0].Name, "slow: ") {
		t.Fatalf("%+v, %v", r, err)
	}
	detail, err := b.client.Version(t.Context(), edgewise.ModelID{Name: "both", Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range detail.Config.Pins() {
		want := int64(1)
		for _, p := range r.Parts {
			if p.Model == pin.Name {
				want = p.Version
			}
		}
		if pin.Version != want {
			t.Errorf("it runs %v, want version %d", pin, want)
		}
	}
	b.must("model", "rollback", "both")
	b.wantBias("both", "1", 2)
}

// TestAKilledBoxKeepsTheEnsembleThatWasTuned cuts the power while candidates of its parts are measured.
func TestAKilledBoxKeepsTheEnsembleThatWasTuned(t *testing.T) {
	dir := t.TempDir()
	b := serveReady(t, dir)
	b.pushTwo(t)
	if _, err := b.client.StartTuning(t.Context(), "both", admin.TuneRequest{Seconds: 60}); err != nil {
		t.Fatal(err)
	}
	b.awaitTuning(t, "both", func(now admin.Tuning) bool { return now.Measured >= 2 })
	b.kill()
	b = serveReady(t, dir)
	b.wantBias("both", "1", 2)
	for _, name := range []string{"both", "slow", "quick"} {
		if m, err := b.client.Model(t.Context(), name); err != nil || len(m.Versions) != 1 {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}
