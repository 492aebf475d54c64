package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/test/fakevulkan"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// chosenLine begins the line of the log about a measurement.
const chosenLine = "the device of a model was chosen by measurement"

// choice returns what was measured of a version; nil when nothing was.
func (b *box) choice(model, version string) *admin.Choice {
	b.t.Helper()
	status, text := b.send(http.MethodGet, "/api/v1/models/"+model+"/versions/"+version, nil)
	var detail struct {
		Choice *admin.Choice `json:"choice"`
	}
	if err := json.Unmarshal([]byte(text), &detail); status != http.StatusOK || err != nil {
		b.t.Fatalf("%s version %s: %d %s", model, version, status, text)
	}
	return detail.Choice
}

// wantChoice checks which device was chosen and what became of the other one.
func (b *box) wantChoice(model, version, device, state string) *admin.ChoiceCandidate {
	b.t.Helper()
	found := b.choice(model, version)
	if found == nil || found.Candidate("vulkan:0") == nil || found.Candidate("cpu") == nil {
		b.t.Fatalf("%s version %s: nothing was measured: %+v\n%s", model, version, found, b.output())
	}
	other := found.Candidate("vulkan:0")
	if found.Device != device || other.State != state {
		b.t.Errorf("%s version %s: %s (vulkan:0 is %s)", model, version, found, other.State)
	}
	return other
}

// wantOn checks on which device a model has memory.
func (b *box) wantOn(device string, want, others []string) {
	b.t.Helper()
	var list []struct {
		Name   string `json:"name"`
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	status, text := b.send(http.MethodGet, "/api/v1/devices", nil)
	if err := json.Unmarshal([]byte(text), &list); status != http.StatusOK || err != nil {
		b.t.Fatalf("devices: %d %s (%v)", status, text, err)
	}
	on := map[string]bool{}
	for _, d := range list {
		for _, m := range d.Models {
			on[m.Name] = on[m.Name] || d.Name == device
		}
	}
	for _, m := range want {
		if !on[m] {
			b.t.Errorf("%s has no memory of %s: %s", m, device, text)
		}
	}
	for _, m := range others {
		if on[m] {
			b.t.Errorf("%s has memory of %s: %s", m, device, text)
		}
	}
}

// measurements is how often a device was chosen by measurement since the box has started.
func (b *box) measurements() int { return strings.Count(b.output(), chosenLine) }

// tinyOpen is the configuration of a tiny model that leaves the kind of device open.
const tinyOpen = "max_batch_size: 4\nparameters { key: \"gpu_batch_buckets\" value { string_value: \"1,4\" } }\n"

// patientTrial gives a software device on a busy machine the time to compile its shaders.
var patientTrial = []string{"--set", "gpu.trial_time=5m", "--set", "engine.load_timeout=15m"}

// withConfigs writes configurations beside models of a repository.
func withConfigs(t *testing.T, dir string, configs map[string]string) {
	t.Helper()
	for name, text := range configs {
		if err := os.WriteFile(filepath.Join(dir, name, "config.pbtxt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestASlowerDeviceIsNotChosen measures a network on the CPU and on SwiftShader, which is slower: the CPU is chosen, and
// the API, the command line and the log say why. Models that name a kind are not measured. What was found holds after a
// restart and under another name of the model, and not for other hardware, another version, or a model that was deleted.
func TestASlowerDeviceIsNotChosen(t *testing.T) {
	t.Parallel()
	dir := repositoryOf(t, map[string]*onnxgen.Model{
		"open/1": biased(1), "oncpu/1": biased(1), "ongpu/1": biased(1), "named/1": biased(1),
	})
	withConfigs(t, dir, map[string]string{
		"open":  tinyOpen,
		"oncpu": "max_batch_size: 4\ninstance_group { kind: KIND_CPU }\n",
		"ongpu": tinyOnGPU,
		"named": strings.Replace(tinyOnGPU, "kind: KIND_GPU", "gpus: [ 0 ]", 1),
	})
	settings, data := append(onVulkan(t, vulkanLoader, swiftShader), patientTrial...), t.TempDir()
	b := serveReady(t, data, append(settings, "--import", dir)...)
	slower := b.wantChoice("open", "1", "cpu", admin.CandidateSlower)
	if len(slower.Figures) != 2 || slower.Figures[1].Rows != 4 || slower.Difference == nil || slower.Difference.Output != "y" {
		t.Errorf("what was measured of vulkan:0: %+v", slower)
	}
	for _, name := range []string{"oncpu", "ongpu", "named"} {
		if found := b.choice(name, "1"); found != nil {
			t.Errorf("%s names its kind and was measured: %v", name, found)
		}
		b.refuses(4, []string{"its device is not chosen by measurement"}, "model", "measure", name)
	}
	b.wantOn("vulkan:0", []string{"ongpu", "named"}, []string{"open", "oncpu"})
	contains(t, "log", b.output(), chosenLine, `device=cpu found="cpu `, "cpu is chosen")
	contains(t, "model show", b.must("model", "show", "open"), "DEVICE",
		"vulkan:0", "slower", "ms for 4", "cpu serves: no other device is right and faster")
	if b.measurements() != 1 {
		t.Errorf("%d measurements, want 1", b.measurements())
	}
	first := b.choice("open", "1")
	b.stop()

	b = serveReady(t, data, settings...)
	if again := b.choice("open", "1"); b.measurements() != 0 || again == nil || !again.Measured.Equal(first.Measured) {
		t.Errorf("after a restart it was measured %d times: %v", b.measurements(), again)
	}
	contains(t, "model measure", b.must("model", "measure", "open"), "cpu serves: no other device is right and faster")
	second := b.choice("open", "1")
	if b.measurements() != 1 || !second.Measured.After(first.Measured) {
		t.Errorf("\"model measure\" measured %d times: %v", b.measurements(), second)
	}
	b.followsTheModel(second.Measured)
	b.stop()

	b = serveReady(t, data, append(settings, "--set", "onnx.threads=1")...)
	if b.measurements() != 2 { // both versions that are served then
		t.Errorf("on other hardware it was measured %d times\n%s", b.measurements(), b.output())
	}
	b.terminate()
}

// followsTheModel gives a model that was measured another name, another version, the first one back, and deletes it.
func (b *box) followsTheModel(measured time.Time) {
	b.t.Helper()
	before := b.measurements()
	expect := func(what string, n int) {
		b.t.Helper()
		if before += n; b.measurements() != before {
			b.t.Errorf("%s: measured %d times, want %d\n%s", what, b.measurements(), before, b.output())
		}
	}
	b.must("model", "rename", "open", "renamed")
	expect("another name", 0)
	if found := b.choice("renamed", "1"); found == nil || !found.Measured.Equal(measured) {
		b.t.Errorf("under another name: %v", found)
	}
	other := save(b.t, biased(2))
	if err := os.WriteFile(filepath.Join(other, "config.pbtxt"), []byte(tinyOpen), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.must("model", "push", "renamed", other)
	expect("another version", 1)
	b.wantChoice("renamed", "2", "cpu", admin.CandidateSlower)
	b.must("model", "rollback", "renamed")
	expect("the first version again", 0)
	b.must("model", "push", "gone", other)
	expect("the same network by another name", 1)
	b.must("model", "rm", "gone")
	b.must("model", "push", "gone", other)
	expect("after it was deleted", 1)
}

// TestAFastDeviceIsChosenWhereItAnswersRight measures two networks on a device that computes nothing, and so is fast: one
// whose answer is its input, which it answers rightly and serves, and another one, from which it is excluded.
func TestAFastDeviceIsChosenWhereItAnswersRight(t *testing.T) {
	t.Parallel()
	shim := fakevulkan.NewShim(t, vulkanLoader)
	shim.Always(fakevulkan.Idle)
	dir := repositoryOf(t, map[string]*onnxgen.Model{"heavy/1": onnxgen.Heavy(4), "sum/1": biased(1)})
	withConfigs(t, dir, map[string]string{"heavy": "max_batch_size: 1\n", "sum": tinyOpen})
	settings := append(onVulkan(t, shim.Path, swiftShader), patientTrial...)
	b := serveReady(t, t.TempDir(), append(settings, "--import", dir)...)
	b.wantChoice("heavy", "1", "vulkan:0", admin.CandidateChosen)
	if cpu := b.choice("heavy", "1").Candidate("cpu"); cpu.State != admin.CandidateSlower {
		t.Errorf("the CPU: %+v", cpu)
	}
	wrong := b.wantChoice("sum", "1", "cpu", admin.CandidateWrong)
	if !strings.HasPrefix(wrong.Reason, `output "y" differs by up to `) || wrong.Difference == nil || wrong.Difference.Allowed == 0 {
		t.Errorf("why it is excluded: %+v", wrong)
	}
	b.wantOn("vulkan:0", []string{"heavy"}, []string{"sum"})
	out := b.infer("heavy", strings.Replace(numbers(1, 256, 1), `"input"`, `"x"`, 1))["y"]
	if len(out) != 256 || relative(make([]float32, len(out)), out) == 0 {
		t.Errorf("%d numbers, want the 256 of the request", len(out))
	}
	b.wantBias("sum", "1", 1)
	contains(t, "model show", b.must("model", "show", "sum"), "wrong", `vulkan:0: output "y" differs by up to `, "cpu serves")
	contains(t, "model show", b.must("model", "show", "heavy"), "vulkan:0 serves")
	b.terminate()
}

// TestADeviceThatHangsIsNotChosen measures a network on a device whose first run never returns: after gpu.trial_time it is
// out with that reason, its process is gone, and the CPU serves.
func TestADeviceThatHangsIsNotChosen(t *testing.T) {
	t.Parallel()
	shim := fakevulkan.NewShim(t, vulkanLoader)
	shim.Always(fakevulkan.Hanging)
	dir := repositoryOf(t, map[string]*onnxgen.Model{"open/1": biased(1)})
	withConfigs(t, dir, map[string]string{"open": tinyOpen})
	b := serveReady(t, t.TempDir(), append(onVulkan(t, shim.Path, swiftShader), "--import", dir, "--set", "gpu.trial_time=10s")...)
	if hung := b.wantChoice("open", "1", "cpu", admin.CandidateFailed); hung.Reason != "it took longer than 10s" {
		t.Errorf("why it is out: %+v", hung)
	}
	b.wantBias("open", "1", 1)
	b.wantOn("vulkan:0", nil, []string{"open"})
	b.terminate()
}

// TestAModelThatIsOlderThanTheDeviceIsMeasuredThere stores a model on a box without a GPU. When the box has a device it is
// measured like any other.
func TestAModelThatIsOlderThanTheDeviceIsMeasuredThere(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b := serveReady(t, data)
	b.upload("old", "?promote=true", biased(1))
	b.wantBias("old", "1", 1)
	if found := b.choice("old", "1"); found != nil {
		t.Errorf("measured without a device: %v", found)
	}
	b.stop()
	settings := append(onVulkan(t, vulkanLoader, swiftShader), patientTrial...)
	b = serveReady(t, data, settings...)
	b.wantChoice("old", "1", "cpu", admin.CandidateSlower)
	b.wantBias("old", "1", 1)
	b.terminate()
}
