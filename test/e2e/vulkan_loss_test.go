package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/test/fakevulkan"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/processes"
)

var (
	vulkanLosses = flag.Int("e2e.losses", 2, "how often a Vulkan device is lost under load")
	vulkanDriver = flag.String("e2e.vulkan", swiftShader, "the manifest of the Vulkan driver of the tests that take long")
)

// lossReasons are what requests are told while a device is lost and its model comes back.
var lossReasons = []string{
	"has stopped working and is started again", "its device was lost", "is not started again before the model is loaded again",
	"its process has just ended",
}

// lossClients ask a model that adds 1 to its input, each with numbers of its own, and count what they are answered.
type lossClients struct {
	url               string
	right, refused    atomic.Int64
	wrong, unreasoned atomic.Int64
	first             atomic.Value // text of the first answer that is wrong
	stop              chan struct{}
	work              sync.WaitGroup
}

func askUnderLoad(url string, clients int) *lossClients {
	c := &lossClients{url: url, stop: make(chan struct{})}
	for n := range clients {
		c.work.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-c.stop:
					return
				default:
					c.ask(float32(n*100_000 + i%50_000))
				}
			}
		})
	}
	return c
}

func (c *lossClients) end() {
	close(c.stop)
	c.work.Wait()
}

func (c *lossClients) ask(x float32) {
	body := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[%g,%g,%g,%g]}]}`, x, x, x, x)
	res, err := http.Post(c.url+"/v2/models/cat/infer", mimeJSON, strings.NewReader(body))
	if err != nil {
		c.fault(&c.unreasoned, err.Error())
		return
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	var a answer
	switch {
	case err != nil:
		c.fault(&c.unreasoned, err.Error())
	case res.StatusCode == http.StatusOK && json.Unmarshal(text, &a) == nil && len(a.Outputs) == 1 &&
		slices.Equal(a.Outputs[0].Data, []float32{x + 1, x + 1, x + 1, x + 1}):
		c.right.Add(1)
	case res.StatusCode == http.StatusOK:
		c.fault(&c.wrong, string(text))
	case res.StatusCode == http.StatusServiceUnavailable &&
		slices.ContainsFunc(lossReasons, func(r string) bool { return strings.Contains(string(text), r) }):
		c.refused.Add(1)
		time.Sleep(5 * time.Millisecond) // a client that was refused asks again, and not at once
	default:
		c.fault(&c.unreasoned, fmt.Sprintf("%d %s", res.StatusCode, text))
	}
}

func (c *lossClients) fault(counter *atomic.Int64, text string) {
	counter.Add(1)
	c.first.CompareAndSwap(nil, text)
}

// TestALostVulkanDeviceCostsNoWrongAnswer loses the device of a model again and again while clients ask it. Each request
// is answered rightly or refused with the reason, the model is back each time, and nothing is left behind. A model whose
// process has died too often is loaded again, as an operator would.
func TestALostVulkanDeviceCostsNoWrongAnswer(t *testing.T) {
	t.Parallel()
	shim := fakevulkan.NewShim(t, vulkanLoader)
	b := serveReady(t, t.TempDir(), append(onVulkan(t, shim.Path, *vulkanDriver), "--import", lossRepository(t))...)
	c := askUnderLoad(b.url, 4)
	lose := func(n int) { b.loseDevice(c, func() { shim.Fail(fakevulkan.Lost, n%3) }) }
	lose(0) // what is made once is there after the first one
	descriptors, bytes := b.descriptors(), b.privateBytes()
	for n := 1; n < *vulkanLosses; n++ {
		if lose(n); (n+1)%100 == 0 {
			t.Logf("%d losses: the box's own memory is %d KiB", n+1, b.privateBytes()>>10)
		}
	}
	c.end()
	t.Logf("%d losses: %d right answers, %d refusals; the box's own memory %d KiB after the first and %d KiB after the last, its "+
		"descriptors %d and %d", *vulkanLosses, c.right.Load(), c.refused.Load(), bytes>>10, b.privateBytes()>>10, descriptors,
		b.descriptors())
	if c.wrong.Load() > 0 || c.unreasoned.Load() > 0 {
		t.Errorf("%d wrong answers, %d without a reason, the first: %v", c.wrong.Load(), c.unreasoned.Load(), c.first.Load())
	}
	_, devices := b.send(http.MethodGet, "/api/v1/devices", nil)
	contains(t, "devices", devices, fmt.Sprintf(`"losses":%d`, *vulkanLosses), `"loss":"its device was lost"`)
	_, system := b.send(http.MethodGet, "/api/v1/system", nil)
	contains(t, "system", system, `"code":"device_lost"`, "vulkan:0 (")
	if children, err := processes.Children(b.cmd.Process.Pid); err != nil || len(children) != 1 {
		t.Errorf("%d processes of models are left, want 1: %v", len(children), err)
	}
	if after := b.descriptors(); after > descriptors+16 {
		t.Errorf("%d descriptors, after the first loss there were %d", after, descriptors)
	}
	if after := b.privateBytes(); after > bytes+lossMemory {
		t.Errorf("the box has %d bytes of its own, after the first loss it had %d", after, bytes)
	}
	b.terminate()
}

// TestAVulkanDriverThatHangsIsEnded makes a driver hold a run. The request ends after its time, the process is killed and
// another one answers.
func TestAVulkanDriverThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	shim := fakevulkan.NewShim(t, vulkanLoader)
	settings := append(onVulkan(t, shim.Path, swiftShader), "--import", lossRepository(t), "--set", "engine.request_timeout=10s")
	b := serveReady(t, t.TempDir(), settings...)
	body := `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[0,0,0,0]}]}`
	ask := func() (int, string) { return b.send(http.MethodPost, "/v2/models/cat/infer", []byte(body)) }
	if status, text := ask(); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	shim.Fail(fakevulkan.Hanging, 0)
	if status, text := ask(); status != http.StatusGatewayTimeout && status != http.StatusServiceUnavailable {
		t.Errorf("a run that the driver holds: %d %s", status, text)
	}
	b.await(func() bool { status, _ := ask(); return status == http.StatusOK })
	_, devices := b.send(http.MethodGet, "/api/v1/devices", nil)
	contains(t, "devices", devices, `"losses":1`, `"loss":"killed: a run went on for 2s after it was told to end"`)
	b.terminate()
}

// descriptors counts the open files of the box.
func (b *box) descriptors() int {
	b.t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	return len(list)
}

// lossMemory is by how much a box may grow while devices are lost: its heap grows until it is collected.
const lossMemory = 48 << 20

// privateBytes is the memory of the box that it shares with nobody.
func (b *box) privateBytes() int64 {
	b.t.Helper()
	own, _, err := processes.PrivateBytes(b.cmd.Process.Pid)
	if err != nil {
		b.t.Fatal(err)
	}
	return own
}

// losses is how often processes on Vulkan devices have died.
func (b *box) losses() (n int) {
	b.t.Helper()
	var list []struct {
		Losses int `json:"losses"`
	}
	status, text := b.send(http.MethodGet, "/api/v1/devices", nil)
	if err := json.Unmarshal([]byte(text), &list); status != http.StatusOK || err != nil {
		b.t.Fatalf("devices: %d %s (%v)", status, text, err)
	}
	for _, d := range list {
		n += d.Losses
	}
	return n
}

// loseDevice makes a fault and waits until a process has died of it, a request was refused and another one answered.
func (b *box) loseDevice(c *lossClients, fail func()) {
	b.t.Helper()
	refused, losses := c.refused.Load(), b.losses()
	fail()
	b.await(func() bool {
		return b.losses() > losses && c.refused.Load() > refused || c.unreasoned.Load() > 0
	})
	right := c.right.Load()
	b.await(func() bool {
		if status, text := b.send(http.MethodGet, "/api/v1/models/cat", nil); status == http.StatusOK &&
			strings.Contains(text, "is not started again before") {
			b.send(http.MethodPost, "/v2/repository/models/cat/load", nil)
		}
		return c.right.Load() > right || c.unreasoned.Load() > 0
	})
}

// await waits for a state of the box.
func (b *box) await(done func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("the box did not come to the state that was awaited:\n%s", b.output())
		}
	}
}

// lossRepository has one tiny model for a GPU.
func lossRepository(t *testing.T) string {
	t.Helper()
	dir := repositoryOf(t, map[string]*onnxgen.Model{"cat/1": biased(1)})
	if err := os.WriteFile(filepath.Join(dir, "cat", "config.pbtxt"), []byte(tinyOnGPU), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
