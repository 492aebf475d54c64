//go:build registry

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// fleetKeys makes a pair of keys by minisign: a folder with the public one, and the private one.
func fleetKeys(t *testing.T) (folder, secret string) {
	t.Helper()
	folder, secret = t.TempDir(), filepath.Join(t.TempDir(), "fleet.key")
	if text, err := exec.Command("minisign", "-G", "-W", "-p", filepath.Join(folder, "fleet.pub"), "-s", secret).CombinedOutput(); err != nil {
		t.Fatalf("Debian's package minisign is needed: %v: %s", err, text)
	}
	return folder, secret
}

// publishBiased publishes a version of cat that adds a bias, with a file that makes it another one, and returns its reference.
func (b *box) publishBiased(r *ociRegistry, bias float32, note string) string {
	b.t.Helper()
	folder := save(b.t, biased(bias))
	if err := os.WriteFile(filepath.Join(folder, "note.txt"), []byte(note), 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.must("model", "push", "cat", folder)
	said := b.must("model", "push", "cat", "oci://"+r.host+"/models/cat:"+note)
	return "oci://" + strings.TrimSpace(said[strings.LastIndex(said, " "):])
}

// signFleet signs a document and publishes it.
func signFleet(t *testing.T, key, to, document string) {
	t.Helper()
	file := write(t, "fleet.json", []byte(document))
	out, stderr, code := run(t, nil, "fleet", "sign", file, "--key", key, "--to", to)
	if code != 0 {
		t.Fatalf("fleet sign: %s%s", out, stderr)
	}
}

// awaitFleet waits until the state of a box in its fleet is what a test wants.
func (b *box) awaitFleet(what string, is func(s admin.Fleet) bool) admin.Fleet {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		s, err := b.client.Fleet(context.Background())
		if err == nil && is(s) {
			return s
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("waiting for %s: %v: %+v\n%s", what, err, s, b.output())
		}
	}
}

// fleet is three boxes of which a is the canary, a registry with their document, and the keys of both.
type fleet struct {
	t        *testing.T
	registry *ociRegistry
	source   string
	rollout  string // a member of the entry, with a comma before it
	keys     string
	secret   string
	data     map[string]string
	boxes    map[string]*box
}

func serveFleet(t *testing.T, r *ociRegistry) *fleet {
	t.Helper()
	f := &fleet{t: t, registry: r, source: "oci://" + r.host + "/fleet:current", data: map[string]string{}, boxes: map[string]*box{}}
	f.keys, f.secret = fleetKeys(t)
	for _, name := range []string{"a", "b", "c"} {
		f.data[name] = t.TempDir()
		f.serve(name)
	}
	return f
}

func (f *fleet) serve(name string) {
	f.t.Helper()
	f.boxes[name] = serveReady(f.t, f.data[name], "--set", "fleet.source="+f.source, "--set", "fleet.trusted_keys="+f.keys, "--set",
		"fleet.interval=1s", "--set", "fleet.box="+name)
}

// document brings a version of cat to the canary, and to the others once the canary reports that it works.
func (f *fleet) document(serial int, reference string) string {
	return fmt.Sprintf(`{"format": 1, "fleet": "shops", "serial": %d,
		"groups": {"canary": {"boxes": ["a"]}, "all": {"percent": 100}},
		"models": [{"model": "cat", "reference": %q, "stages": [{"group": "canary"}, {"group": "all"}]%s}],
		"settings": {"keep_versions": 7}, "report": {"url": "oci://%s/reports"}}`, serial, reference, f.rollout, f.registry.host)
}

// await waits until all boxes are what the document with a serial says.
func (f *fleet) await(serial int64) {
	f.t.Helper()
	for name, b := range f.boxes {
		b.awaitFleet(fmt.Sprintf("box %s to converge on %d", name, serial), func(s admin.Fleet) bool {
			return s.State == admin.FleetConverged && s.Serial == serial && s.Problem == ""
		})
	}
}

// awaitProblem waits until all boxes say why they follow no other document, and holds that they serve.
func (f *fleet) awaitProblem(text string) {
	f.t.Helper()
	for name, b := range f.boxes {
		b.awaitFleet(fmt.Sprintf("box %s to say %q", name, text), func(s admin.Fleet) bool { return strings.Contains(s.Problem, text) })
		if _, got := b.bias("cat"); got != 1 {
			f.t.Errorf("%s: box %s answers %v", text, name, got)
		}
	}
}

// TestAFleetOfThreeBoxesConvergesAndABadVersionStopsAtTheFirstGroup also takes the registry away, and puts documents there that are not
// to be believed.
func TestAFleetOfThreeBoxesConvergesAndABadVersionStopsAtTheFirstGroup(t *testing.T) {
	r := serveRegistry(t)
	builder := serveReady(t, t.TempDir())
	good, bad, better := builder.publishBiased(r, 1, "good"), builder.publishBiased(r, 3, "bad"), builder.publishBiased(r, 1, "better")
	f := serveFleet(t, r)
	signFleet(t, f.secret, f.source, f.document(1, good))
	f.await(1)
	for name, b := range f.boxes {
		b.wantBias("cat", "1", 1)
		if got := b.newest("cat"); got.Origin != good {
			t.Errorf("box %s has it from %s", name, got.Origin)
		}
	}
	input := write(t, "x.json", []byte("[[1, 2, 3, 4]]"))
	f.boxes["a"].must("golden", "add", "cat", "-i", input, "--name", "sum")

	signFleet(t, f.secret, f.source, f.document(2, bad))
	f.boxes["a"].awaitFleet("the canary to take it back", func(s admin.Fleet) bool {
		return s.Serial == 2 && s.Wishes[0].State == admin.WishTakenBack && strings.Contains(s.Wishes[0].Reason, "goldens")
	})
	for _, name := range []string{"b", "c"} {
		f.boxes[name].awaitFleet("the others to hear of it", func(s admin.Fleet) bool {
			return s.Serial == 2 && s.Wishes[0].State == admin.WishWaiting && strings.Contains(s.Wishes[0].Reason, `box "a" of group canary`)
		})
		if m, err := f.boxes[name].client.Model(context.Background(), "cat"); err != nil || len(m.Versions) != 1 {
			t.Errorf("%v: box %s has fetched the bad version", err, name)
		}
	}
	for _, b := range f.boxes {
		b.wantBias("cat", "1", 1)
	}
	contains(t, "status", f.boxes["b"].must("fleet", "status"), "box b: held", "serial 2", "cat:live", "waiting: box \"a\" of group canary")

	foreign, stranger := fleetKeys(t)
	_ = foreign
	signFleet(t, stranger, f.source, f.document(9, bad))
	f.awaitProblem("which this box does not trust")
	signFleet(t, f.secret, f.source, f.document(1, bad))
	f.awaitProblem("has followed 2 already")
	signFleet(t, f.secret, f.source, f.document(2, better))
	f.awaitProblem("two documents with the serial 2")
	r.stop()
	f.awaitProblem("unavailable")
	f.boxes["b"].stop()
	f.serve("b")
	f.awaitProblem("unavailable")
	r.start(t)

	signFleet(t, f.secret, f.source, f.document(3, better))
	f.await(3)
	for name, b := range f.boxes {
		if _, got := b.bias("cat"); got != 1 || b.newest("cat").Origin != better {
			t.Errorf("box %s answers %v and has %s", name, got, b.newest("cat").Origin)
		}
	}
}

// TestAFleetStopsABadVersionAtTheFirstGroupByTheEvidenceOfItsRollout has no goldens: the canary's clients bring the evidence.
func TestAFleetStopsABadVersionAtTheFirstGroupByTheEvidenceOfItsRollout(t *testing.T) {
	r := serveRegistry(t)
	builder := serveReady(t, t.TempDir())
	good, bad := builder.publishBiased(r, 1, "good"), builder.publishBiased(r, 3, "bad")
	f := serveFleet(t, r)
	f.rollout = `, "rollout": {"shadow": {"percent": 100}, "stages": [{"percent": 1, "requests": 100000}]}`
	signFleet(t, f.secret, f.source, f.document(1, good))
	f.await(1)
	signFleet(t, f.secret, f.source, f.document(2, bad))
	f.boxes["a"].awaitFleet("the rollout to begin", func(s admin.Fleet) bool {
		return s.Serial == 2 && s.Wishes[0].State == admin.WishRolling
	})
	f.boxes["a"].awaitFleet("the canary to take it back", func(s admin.Fleet) bool {
		f.boxes["a"].askBiased(t, "cat", 1, 20)
		return s.Wishes[0].State == admin.WishTakenBack && strings.HasPrefix(s.Wishes[0].Reason, admin.RolloutBack)
	})
	for _, name := range []string{"b", "c"} {
		f.boxes[name].awaitFleet("the others to hear of it", func(s admin.Fleet) bool {
			return s.Serial == 2 && s.Wishes[0].State == admin.WishWaiting && strings.Contains(s.Wishes[0].Reason, "taken_back")
		})
	}
	for _, b := range f.boxes {
		b.wantBias("cat", "1", 1)
	}
}

func TestABoxOfAFleetServesWhateverItsRegistryAnswers(t *testing.T) {
	r := serveRegistry(t)
	builder := serveReady(t, t.TempDir())
	good := builder.publishBiased(r, 1, "good")
	var answer atomic.Int64 // 0: that of the registry; -1: none
	held := make(chan struct{})
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: r.host})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch status := int(answer.Load()); {
		case status > 0:
			w.WriteHeader(status)
		case status < 0:
			select {
			case <-held:
			case <-req.Context().Done():
			}
		default:
			proxy.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(s.Close)
	keys, secret := fleetKeys(t)
	source := "oci://" + strings.TrimPrefix(s.URL, "http://") + "/fleet:current"
	document := func(serial int) string {
		return fmt.Sprintf(`{"format": 1, "fleet": "shops", "serial": %d, "models": [{"model": "cat", "reference": %q}]}`, serial, good)
	}
	signFleet(t, secret, source, document(1))
	b := serveReady(t, t.TempDir(), "--set", "fleet.source="+source, "--set", "fleet.trusted_keys="+keys, "--set", "fleet.interval=1s")
	converged := func(s admin.Fleet) bool { return s.State == admin.FleetConverged && s.Problem == "" }
	b.awaitFleet("the box to converge", converged)
	for _, status := range []int64{500, 429} {
		answer.Store(status)
		b.awaitFleet(fmt.Sprint("the box to hear ", status), func(s admin.Fleet) bool { return strings.Contains(s.Problem, "unavailable") })
		b.wantBias("cat", "1", 1)
		answer.Store(0)
		b.awaitFleet("the box to hear of the document again", converged)
	}
	answer.Store(-1)
	asked := b.awaitFleet("a state", func(admin.Fleet) bool { return true }).Asked
	b.wantBias("cat", "1", 1)
	close(held)
	answer.Store(0)
	b.awaitFleet("the box to ask again", func(s admin.Fleet) bool { return converged(s) && s.Asked.After(asked) })
}

func TestABoxOfAFleetThatIsKilledWhileItFetchesConvergesAfterItsNextStart(t *testing.T) {
	r := serveRegistry(t)
	builder := serveReady(t, t.TempDir())
	builder.must("model", "push", "anchors", stepFolder(t, 64<<20))
	said := builder.must("model", "push", "anchors", "oci://"+r.host+"/models/anchors:1")
	slow, proceed := holdAfter(t, r.host, 16<<20)
	reference := "oci://" + strings.Replace(strings.TrimSpace(said[strings.LastIndex(said, " "):]), r.host, slow, 1)
	good := builder.publishBiased(r, 1, "good")
	keys, secret := fleetKeys(t)
	stick := t.TempDir()
	document := func(serial int, more string) string {
		return fmt.Sprintf(`{"format": 1, "fleet": "shops", "serial": %d, "models": [{"model": "cat", "reference": %q}%s]}`, serial, good, more)
	}
	signFleet(t, secret, stick, document(1, ""))
	data := t.TempDir()
	start := func() *box {
		return serveReady(t, data, "--set", "fleet.source="+stick, "--set", "fleet.trusted_keys="+keys, "--set", "fleet.interval=1s")
	}
	converged := func(serial int64) func(s admin.Fleet) bool {
		return func(s admin.Fleet) bool { return s.State == admin.FleetConverged && s.Serial == serial }
	}
	b := start()
	b.awaitFleet("the box to converge", converged(1))
	signFleet(t, secret, stick, document(2, fmt.Sprintf(`, {"model": "anchors", "reference": %q}`, reference)))
	part := awaitPart(t, filepath.Join(data, "pulls"))
	b.wantBias("cat", "1", 1)
	b.kill()
	if _, err := os.Stat(part); err != nil {
		t.Fatal("the part went with the box")
	}
	proceed()
	_ = os.Remove(filepath.Join(stick, "fleet.json")) // the box knows what it is to be
	b = start()
	b.wantBias("cat", "1", 1)
	b.awaitFleet("the box to converge after its start", converged(2))
	if got := b.newest("anchors"); filesOf(got) != filesOf(builder.newest("anchors")) {
		t.Errorf("it has %s", filesOf(got))
	}
}

func TestAFleetsDocumentComesFromAWebServer(t *testing.T) {
	r := serveRegistry(t)
	builder := serveReady(t, t.TempDir())
	good := builder.publishBiased(r, 1, "good")
	keys, secret := fleetKeys(t)
	folder := t.TempDir()
	signFleet(t, secret, folder, fmt.Sprintf(`{"format": 1, "fleet": "shops", "serial": 1,
		"models": [{"model": "cat", "label": "shadow", "reference": %q}], "report": {"url": %q}}`, good, filepath.Join(folder, "reports")))
	s := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(s.Close)
	b := serveReady(t, t.TempDir(), "--set", "fleet.source="+s.URL, "--set", "fleet.trusted_keys="+keys, "--set", "fleet.interval=1s",
		"--set", "fleet.box=gate")
	b.awaitFleet("the box to converge", func(s admin.Fleet) bool { return s.State == admin.FleetConverged && !s.Reported.IsZero() })
	b.wantBias("cat/versions/1", "1", 1)
	if text, err := os.ReadFile(filepath.Join(folder, "reports", "boxes", "box-gate.json")); err != nil ||
		!strings.Contains(string(text), `"state":"converged"`) {
		t.Errorf("%v: %s", err, text)
	}
	_, page := b.send(http.MethodGet, "/metrics", nil)
	contains(t, "the metrics", page, "edgewise_fleet_serial 1", "edgewise_fleet_converged 1", "edgewise_fleet_failures_total 0")
	b.must("fleet", "poll")
	contains(t, "diff", b.must("fleet", "diff", filepath.Join(folder, "fleet.json")), "fleet shops, serial 1", "cat:shadow (version 1)  done")
	b.must("fleet", "forget")
}
