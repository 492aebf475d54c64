package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// waits is a configuration whose requests wait for others that do not come.
const waits = `# kept by tuning
max_batch_size: 8
dynamic_batching { preferred_batch_size: 8 max_queue_delay_microseconds: 100000 }
parameters { key: "owner" value { string_value: "line 3" } }
`

// pushBiased stores a biased model with a configuration, and makes it live.
func (b *box) pushBiased(t *testing.T, name, configuration string) {
	t.Helper()
	if status, text := b.pack(name, configuration); status != http.StatusCreated {
		t.Fatalf("uploading %s: %d %s", name, status, text)
	}
}

func (b *box) pack(name, configuration string) (status int, text string) {
	return b.send(http.MethodPost, "/api/v1/models/"+name+"/versions?promote=true", configured(configuration), "Content-Type", mimeTar)
}

// awaitTuning waits until a tuning is as is says.
func (b *box) awaitTuning(t *testing.T, model string, is func(admin.Tuning) bool) admin.Tuning {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		now, err := b.client.Tuning(t.Context(), model)
		if err != nil {
			t.Fatal(err)
		}
		if is(now) {
			return now
		}
		if time.Now().After(end) || !now.Active() {
			t.Fatalf("the tuning is %+v\n%s", now, b.output())
		}
	}
}

// TestAModelIsTunedByWhatIsMeasuredAndTakenBack tunes a model whose configuration makes each request wait: the version that
// comes of it is live, answers the same, keeps what was not tuned, says what was tried, and can be taken back.
func TestAModelIsTunedByWhatIsMeasuredAndTakenBack(t *testing.T) {
	b := serveReady(t, t.TempDir())
	b.pushBiased(t, "slow", waits)
	out := b.must("tune", "slow", "--limit", "40s", "--throughput", "50")
	contains(t, "the report", out, "version 2 is live", "chosen", "current configuration", "generated inputs", "THROUGHPUT")
	b.wantBias("slow", "2", 1)

	tuned := edgewise.ModelID{Name: "slow", Version: 2}
	detail, err := b.client.Version(t.Context(), tuned)
	if err != nil || detail.Config.Parameters["owner"].StringValue != "line 3" || detail.Config.MaxBatchSize < 8 {
		t.Errorf("%+v, %v", detail.Config, err)
	}
	r, err := b.client.TuneReport(t.Context(), tuned)
	if err != nil || r.Base != 1 || r.Version != 2 || !r.Live || r.Gain < 2 || r.Stale != "" || len(r.Candidates) < 3 ||
		len(r.Hardware) == 0 || r.Candidates[0].State != admin.CandidateChosen || len(r.Candidates[0].Points) < 2 {
		t.Errorf("%+v, %v", r, err)
	}
	all, err := b.client.Tunings(t.Context(), "slow")
	if err != nil || all.Latest == nil || all.Latest.State != admin.TuneDone || len(all.Reports) != 1 ||
		all.Reports[0] != (admin.TuneSummary{Version: 2, Base: 1, Gain: r.Gain, Measured: r.Measured}) {
		t.Errorf("%+v, %v", all, err)
	}
	b.must("model", "rollback", "slow")
	b.wantBias("slow", "1", 1)
	contains(t, "the report of version 2", b.must("tune", "slow:2", "--report"), "version 2 is live")
	b.refuses(3, []string{"version 1", "no report"}, "tune", "slow", "--report")
}

// TestATuningMergesNoRequestsThatTheBoxDoesNot tunes a model whose rows depend on each other: a configuration that has a
// batcher would say that they do not.
func TestATuningMergesNoRequestsThatTheBoxDoesNot(t *testing.T) {
	b := serveReady(t, t.TempDir())
	// with two groups of instances cores are not searched
	const twoGroups = "instance_group [ { count: 1 kind: KIND_CPU }, { count: 1 kind: KIND_CPU } ]\n"
	status, text := b.send(http.MethodPost, "/api/v1/models/series/versions?promote=true",
		described(centred("batch"), twoGroups), "Content-Type", mimeTar)
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	b.must("tune", "series", "--limit", "10s", "--throughput", "200", "--store-only")
	now, err := b.client.Tuning(t.Context(), "series")
	if err != nil || now.Report == nil || len(now.Report.Candidates) < 2 {
		t.Fatalf("%+v, %v", now, err)
	}
	for _, c := range now.Report.Candidates {
		if strings.Contains(c.Name(), "batch") {
			t.Errorf("it has tried %s", c.Name())
		}
	}
}

// TestABoundThatNothingKeepsChangesNothing names the candidate that came closest.
func TestABoundThatNothingKeepsChangesNothing(t *testing.T) {
	b := serveReady(t, t.TempDir())
	b.pushBiased(t, "m", waits)
	out := b.must("tune", "m", "--limit", "10s", "--p99", "1us")
	contains(t, "the report", out, "nothing is changed: no candidate keeps the p99 latency below 1µs: of the nearest one its p99")
	b.wantBias("m", "1", 1)
	contains(t, "the report of version 1", b.must("tune", "m", "--report"), "no candidate keeps")
}

// TestWhatCannotBeTunedIsRefused sends objectives and models that cannot be tuned.
func TestWhatCannotBeTunedIsRefused(t *testing.T) {
	b := serveReady(t, t.TempDir())
	b.upload("m", "?promote=true", biased(1))
	for body, part := range map[string]string{
		`{"objective":{"p50_ms":1}}`:                          `p50_ms`,
		`{"objective":{"p99_ms":-4}}`:                         "p99_ms is -4: want 0.001 to 3600000",
		`{"objective":{"weights":{}}}`:                        "all weights are 0",
		`{"seconds":1}`:                                       "seconds is 1: want 10 to 3600",
		`{"objective":{"throughput":1e12}}`:                   "throughput is 1e+12",
		`{"objective":{"memory_bytes":-1},"store_only":true}`: "memory_bytes is -1",
	} {
		status, text := b.send(http.MethodPost, "/api/v1/models/m/tuning", []byte(body), "Content-Type", mimeJSON)
		if status != http.StatusBadRequest || !strings.Contains(text, part) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	b.refuses(3, []string{"was not tuned"}, "tune", "m", "--stop")
	b.refuses(2, []string{"--weights", "latency=2"}, "tune", "m", "--weights", "speed=2")
	b.refuses(2, []string{"the live one is tuned"}, "tune", "m:1")
	status, text := b.pack("bad", `parameters { key: "tune" value { string_value: "always" } }`)
	if status != http.StatusBadRequest || !strings.Contains(text, `want \"idle\" or an objective`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestATuningWaitsWhileClientsSendRequests sends requests without a pause: nothing is measured meanwhile, each is answered,
// and a second tuning of the model is refused.
func TestATuningWaitsWhileClientsSendRequests(t *testing.T) {
	b := serveReady(t, t.TempDir())
	b.pushBiased(t, "m", "max_batch_size: 8\n")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				b.wantBias("m", "1", 1)
			}
		}
	}()
	if _, err := b.client.StartTuning(t.Context(), "m", admin.TuneRequest{Seconds: 10}); err != nil {
		t.Fatal(err)
	}
	b.awaitTuning(t, "m", func(now admin.Tuning) bool { return now.State == admin.TuneWaiting && now.Seconds > 4 })
	if now, err := b.client.Tuning(t.Context(), "m"); err != nil || now.Measured != 0 {
		t.Errorf("beside requests %+v was measured, %v", now, err)
	}
	status, text := b.send(http.MethodPost, "/api/v1/models/m/tuning", []byte(`{}`), "Content-Type", mimeJSON)
	if status != http.StatusConflict || !strings.Contains(text, "is being tuned") {
		t.Errorf("%d %s", status, text)
	}
	close(stop)
	<-done
	b.awaitTuning(t, "m", func(now admin.Tuning) bool { return now.Measured > 0 })
	contains(t, "the command", b.must("tune", "m", "--stop"), "is stopped")
	b.wantBias("m", "1", 1)
}

// TestAKilledBoxKeepsTheConfigurationThatWasTuned cuts the power while candidates are measured.
func TestAKilledBoxKeepsTheConfigurationThatWasTuned(t *testing.T) {
	dir := t.TempDir()
	b := serveReady(t, dir)
	b.pushBiased(t, "m", waits)
	if _, err := b.client.StartTuning(t.Context(), "m", admin.TuneRequest{Seconds: 60}); err != nil {
		t.Fatal(err)
	}
	b.awaitTuning(t, "m", func(now admin.Tuning) bool { return now.Measured >= 2 })
	b.kill()
	b = serveReady(t, dir)
	b.wantBias("m", "1", 1)
	m, err := b.client.Model(t.Context(), "m")
	if err != nil || len(m.Versions) != 1 || m.Versions[0].Version != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if now, err := b.client.Tuning(t.Context(), "m"); err == nil {
		t.Errorf("after the start there is %+v", now)
	}
}
