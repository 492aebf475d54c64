package fault

import (
	"cmp"
	"flag"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/test/hostile"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

var traps = flag.Int("fault.traps", 1000, "failing runs of hostile modules")

// TestHostileModulesHurtNobody sends the whole corpus of hostile modules to the real server while a model is under
// load: each is met as its file says, the model's requests all succeed, and afterwards nothing of them is left.
func TestHostileModulesHurtNobody(t *testing.T) {
	const runTimeout = 100 * time.Millisecond
	modules, err := hostile.Read(filepath.Join(real.Root(t), "wasm/testdata/hostile"))
	if err != nil {
		t.Fatal(err)
	}
	b := startBox(t, t.TempDir(), "wasm.run_timeout="+runTimeout.String())
	b.push(t, "victim", "model.onnx", onnxgen.MLP(1).Bytes())
	a := &hostile.Attack{Client: b.client, RunTimeout: runTimeout, Modules: modules}
	stop := make(chan struct{})
	var load sync.WaitGroup
	answers := 0
	load.Go(func() { answers = b.askUntil(t, stop) })
	before, err := hostile.Look(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	refused, accepted, err := a.Upload(t.Context())
	if err != nil || refused+accepted != len(modules) {
		t.Fatalf("%d refused, %d accepted: %v\n%s", refused, accepted, err, &b.output)
	}
	failed, paused, stops, err := a.CallAll(t.Context())
	if err != nil {
		t.Fatalf("%d called: %v", failed, err)
	}
	if failed+paused != accepted || len(stops) < 10 {
		t.Errorf("%d failed, %d paused, %d stopped, of %d", failed, paused, len(stops), accepted)
	}
	if err := a.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Traps(t.Context(), *traps); err != nil || n < *traps {
		t.Errorf("%d traps: %v", n, err)
	}
	if err := a.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(stop)
	load.Wait()
	b.client.Close()
	after, err := hostile.Settled(t.Context(), b.url, before, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	// Connections come and go with their goroutines.
	if after.Guests != before.Guests || after.Goroutines > before.Goroutines+10 {
		t.Errorf("left over: %+v, before: %+v", after, before)
	}
	t.Logf("%d refused, %d accepted, latest stop %v after its limit, %d answers of the model beside them; before %+v, "+
		"after %+v", refused, accepted, slices.MaxFunc(stops,
		func(a, b hostile.Stop) int { return cmp.Compare(a.Late, b.Late) }), answers, before, after)
}
