package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// errKilled is what an action of a box returns that was killed in the middle.
var errKilled = errors.New("killed")

// world is what a box has stored, which a process that is killed leaves as it is.
type world struct {
	t         *testing.T
	mu        sync.Mutex
	documents map[string]map[string][]byte
	records   map[string]*edgewise.Record
	rollouts  map[string]admin.Rollout
	settings  admin.Settings
	registry  map[string]error // references that cannot be fetched
	bad       map[string]error // contents that do not become live
	posted    []admin.FleetReport
	full      bool // the disk
	left      int  // changes until the process is killed; below 0: it is not
	cancel    context.CancelFunc
	installs  int
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, documents: map[string]map[string][]byte{}, records: map[string]*edgewise.Record{}, rollouts: map[string]admin.Rollout{},
		settings: admin.Settings{Name: "b", KeepVersions: 5}, registry: map[string]error{}, bad: map[string]error{}, left: -1,
	}
}

// change lets a change happen, unless the process is killed before or after it.
func (w *world) change(do func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 {
		w.cancel()
		return errKilled
	}
	w.left--
	do()
	return nil
}

type tx struct {
	edgewise.DocumentsTx
	w *world
}

func (t tx) Get(bucket, key string) []byte { return t.w.documents[bucket][key] }

func (t tx) Put(bucket, key string, value []byte) error {
	if t.w.documents[bucket] == nil {
		t.w.documents[bucket] = map[string][]byte{}
	}
	t.w.documents[bucket][key] = value
	return nil
}

func (t tx) Delete(bucket, key string) error {
	delete(t.w.documents[bucket], key)
	return nil
}

func (w *world) View(fn func(edgewise.DocumentsTx) error) error { return fn(tx{w: w}) }

func (w *world) Update(fn func(edgewise.DocumentsTx) error) (err error) {
	if w.full {
		return edgewise.Errorf("documents.Update", edgewise.Exhausted, "the disk is full")
	}
	return errors.Join(w.change(func() { err = fn(tx{w: w}) }), err)
}

func (w *world) Lookup(name string) *edgewise.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[name]
}

func (w *world) Install(_ context.Context, model, reference string) (v *edgewise.Version, err error) {
	if err := w.registry[reference]; err != nil {
		return nil, err
	}
	if w.full {
		return nil, edgewise.Errorf("importer.Install", edgewise.Exhausted, "the disk is full")
	}
	content := edgewise.Digest(reference[len(reference)-1:])
	err = w.change(func() {
		w.installs++
		r := &edgewise.Record{Name: model, Wanted: true}
		if was := w.records[model]; was != nil {
			*r = *was
		}
		if v = stored(r, content); v != nil {
			return
		}
		v = &edgewise.Version{ID: edgewise.ModelID{Name: model, Version: int64(len(r.Versions) + 1)}, Digest: content}
		r.Versions = append(slices.Clone(r.Versions), v)
		w.records[model] = r
	})
	return v, err
}

func (w *world) GoLive(ctx context.Context, id edgewise.ModelID, _ bool) (admin.LabelMove, error) {
	return w.SetLabel(ctx, id.Name, edgewise.LiveLabel, id.Version)
}

func (w *world) SetLabel(_ context.Context, name, label string, version int64) (admin.LabelMove, error) {
	if err := w.bad[string(w.records[name].Version(version).Digest)]; err != nil {
		return admin.LabelMove{}, err
	}
	return admin.LabelMove{}, w.change(func() { w.point(name, label, version) })
}

// point moves a label.
func (w *world) point(name, label string, version int64) {
	r := *w.records[name]
	r.Labels = slices.DeleteFunc(slices.Clone(r.Labels), func(l edgewise.Label) bool { return l.Name == label })
	r.Labels = append(r.Labels, edgewise.Label{Name: label, Version: version})
	w.records[name] = &r
}

func (w *world) Get(model string) (admin.Rollout, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, there := w.rollouts[model]
	if !there {
		return r, edgewise.Errorf("rollout.Get", edgewise.NotFound, "none")
	}
	return r, nil
}

func (w *world) Start(_ context.Context, model string, plan admin.RolloutPlan) (r admin.Rollout, err error) {
	return r, w.change(func() {
		w.rollouts[model] = admin.Rollout{Model: model, Plan: plan, State: admin.RolloutRunning, Started: time.Unix(int64(len(w.posted)), 1)}
	})
}

func (w *world) Settings() admin.Settings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settings
}

func (w *world) ChangeSettings(c admin.SettingsChange) (admin.Settings, error) {
	return w.settings, w.change(func() { w.settings.KeepVersions = *c.KeepVersions })
}

func (w *world) post(_ context.Context, _ string, message any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.posted = append(w.posted, message.(admin.FleetReport))
	return nil
}

// box starts the process of a box with a name.
func (w *world) box(s signer, name, source string) *Fleet {
	f := New(Config{
		Fleet:     config.Fleet{Source: source, TrustedKeys: s.folder, Interval: time.Minute, Box: name},
		Documents: w, Models: w, Rollouts: w, Box: w, Install: w.Install, Post: w.post,
		CheckPlan: func(admin.RolloutSettings) error { return nil }, Logger: slog.New(slog.DiscardHandler),
	})
	f.load()
	return f
}

// turn is one turn of Run.
func (f *Fleet) turn(ctx context.Context) admin.Fleet {
	f.poll(ctx)
	f.converge(ctx)
	f.report(ctx)
	return f.Status()
}

// put writes a document with its signature into a folder.
func (s signer) put(t *testing.T, folder, text string) {
	t.Helper()
	for name, data := range map[string][]byte{File: []byte(text), SignatureFile: s.sign(text)} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// live is what the label live of cat points to: its content.
func (w *world) live() string {
	if r := w.Lookup("cat"); r != nil && r.Label(edgewise.LiveLabel) != 0 {
		return string(r.Version(r.Label(edgewise.LiveLabel)).Digest)
	}
	return ""
}

func wantState(t *testing.T, s admin.Fleet, state, problem string) {
	t.Helper()
	if s.State != state || !strings.Contains(s.Problem, problem) || (problem == "") != (s.Problem == "") {
		t.Fatalf("it is %s (%s), want %s (%s): %+v", s.State, s.Problem, state, problem, s.Wishes)
	}
}

func TestABoxConvergesAndReports(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	members := `, "settings": {"keep_versions": 3}, "report": {"url": "` + filepath.Join(source, "reports") + `", "webhook": "http://x/"}`
	s.put(t, source, text(1, members+entry("1", "")))
	b := w.box(s, "b", source)
	wantState(t, b.turn(t.Context()), admin.FleetConverged, "")
	if w.live() != "1" || w.settings.KeepVersions != 3 || w.installs != 1 {
		t.Errorf("%q is live, %d versions are kept, %d installs", w.live(), w.settings.KeepVersions, w.installs)
	}
	for range 3 {
		b.turn(t.Context())
	}
	if len(w.posted) != 1 || w.posted[0].State != admin.FleetConverged || w.posted[0].Box != "b" || w.installs != 1 {
		t.Errorf("%d installs, reports: %+v", w.installs, w.posted)
	}
	if _, err := os.Stat(filepath.Join(source, "reports", "boxes", "box-b.json")); err != nil {
		t.Error(err)
	}
}

func TestWhateverIsWrongWithTheSourceWhatServesGoesOn(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	first := text(5, entry("1", ""))
	s.put(t, source, first)
	b := w.box(s, "b", source)
	wantState(t, b.turn(t.Context()), admin.FleetConverged, "")
	stranger := newSigner(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second := text(6, entry("2", ""))
	tests := []struct {
		name, problem string
		do            func()
	}{
		{"it is away", "there is no fleet.json", func() { _ = os.Remove(filepath.Join(source, File)) }},
		{"unsigned", "it is not signed", func() { write(File, second); _ = os.Remove(filepath.Join(source, SignatureFile)) }},
		{"strangely signed", "no signature of minisign", func() { write(SignatureFile, "trust me") }},
		{"signed by a stranger", "does not trust", func() { stranger.put(t, source, second) }},
		{"forged", "it is not what key", func() { s.put(t, source, first); write(File, second) }},
		{"older", "has followed 5 already", func() { s.put(t, source, text(4, entry("3", ""))) }},
		{"two documents", "two documents with the serial 5", func() { s.put(t, source, text(5, entry("3", ""))) }},
		{"too large", "more than", func() { s.put(t, source, text(6, strings.Repeat(" ", MaxDocument))) }},
		{"no document", "fleet.json", func() { s.put(t, source, "x") }},
	}
	for _, tt := range tests {
		tt.do()
		wantState(t, b.turn(t.Context()), admin.FleetConverged, tt.problem)
		again := w.box(s, "b", source) // also after a start
		wantState(t, again.turn(t.Context()), admin.FleetConverged, tt.problem)
		if w.live() != "1" || w.installs != 1 || b.Metrics().Serial != 5 {
			t.Fatalf("%s: %q is live after %d installs", tt.name, w.live(), w.installs)
		}
	}
	s.put(t, source, second)
	wantState(t, b.turn(t.Context()), admin.FleetConverged, "")
	if w.live() != "2" {
		t.Errorf("%q is live", w.live())
	}
}

func TestAKeyThatIsNotTrustedAnyMoreBeginsNothing(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	w.registry[ref("1")] = edgewise.Errorf("x", edgewise.Unavailable, "away")
	s.put(t, source, text(1, entry("1", "")))
	b := w.box(s, "b", source)
	wantState(t, b.turn(t.Context()), admin.FleetHeld, "")
	delete(w.registry, ref("1"))
	if err := os.Rename(filepath.Join(s.folder, "fleet.pub"), filepath.Join(s.folder, "old")); err != nil {
		t.Fatal(err)
	}
	for _, box := range []*Fleet{b, w.box(s, "b", source)} {
		if got := box.turn(t.Context()); got.State != admin.FleetHeld || w.installs != 0 {
			t.Errorf("it is %s after %d installs", got.State, w.installs)
		}
	}
}

func TestAVersionThatFailsItsGoldensStopsAtTheFirstGroup(t *testing.T) {
	s, source := newSigner(t), t.TempDir()
	document := func(serial int, digit string) string {
		return text(serial, twoGroups+`, "report": {"url": "`+filepath.Join(source, "reports")+`"}`+
			entry(digit, `, "stages": [{"group": "canary"}, {"group": "all", "done": 1}]`))
	}
	s.put(t, source, document(1, "1"))
	worlds, boxes := map[string]*world{}, map[string]*Fleet{}
	for _, name := range []string{"a", "b", "c"} {
		worlds[name] = newWorld(t)
		boxes[name] = worlds[name].box(s, name, source)
	}
	turn := func(want string) {
		t.Helper()
		got := ""
		for _, name := range []string{"b", "a", "c"} {
			boxes[name].turn(t.Context())
		}
		for _, name := range []string{"a", "b", "c"} {
			got += name + worlds[name].live() + " "
		}
		if strings.TrimSpace(got) != want {
			t.Fatalf("live are %s, want %s", got, want)
		}
	}
	turn("a1 b c1") // b was asked before a had reported
	turn("a1 b1 c1")
	failing := edgewise.Errorf("golden.Prove", edgewise.Conflict, "2 goldens fail")
	failing.Reason = admin.ReasonGoldens
	for _, w := range worlds {
		w.bad["2"] = failing
	}
	s.put(t, source, document(2, "2"))
	turn("a1 b1 c1")
	turn("a1 b1 c1")
	if got := boxes["a"].Status().Wishes[0]; got.State != admin.WishTakenBack || !strings.Contains(got.Reason, "2 goldens fail") {
		t.Errorf("the canary says %+v", got)
	}
	if got := boxes["c"].Status().Wishes[0]; got.State != admin.WishWaiting || !strings.Contains(got.Reason, `box "a" of group canary`) {
		t.Errorf("the others say %+v", got)
	}
	if worlds["a"].installs != 2 || worlds["b"].installs != 1 || worlds["c"].installs != 1 {
		t.Errorf("installs: %d, %d, %d", worlds["a"].installs, worlds["b"].installs, worlds["c"].installs)
	}
	again := worlds["a"].box(s, "a", source) // and a start does not try it again
	again.turn(t.Context())
	if got := again.Status().Wishes[0]; got.State != admin.WishTakenBack {
		t.Errorf("after a start the canary says %+v", got)
	}
	s.put(t, source, document(3, "3"))
	turn("a3 b1 c3")
	turn("a3 b3 c3")
}

func TestWhatDoesNotExistIsTriedAgainAndKeepsNothingElseBack(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	w.registry[ref("1")] = edgewise.Errorf("x", edgewise.NotFound, "there is no such manifest")
	s.put(t, source, text(1, fmt.Sprintf(`, "models": [{"model": "cat", "reference": %q}, {"model": "dog", "reference": %q}]`, ref("1"),
		ref("2"))))
	b := w.box(s, "b", source)
	wantState(t, b.turn(t.Context()), admin.FleetHeld, "")
	if got := b.Status().Wishes; got[0].State != admin.WishFailed || !strings.Contains(got[0].Reason, "no such manifest") ||
		got[1].State != admin.WishDone {
		t.Errorf("%+v", got)
	}
	delete(w.registry, ref("1"))
	b.failures = map[string]failure{} // its pause is over
	wantState(t, b.turn(t.Context()), admin.FleetConverged, "")
}

func TestAFullDiskChangesNothingAndIsTriedAgain(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	s.put(t, source, text(1, entry("1", "")))
	b := w.box(s, "b", source)
	b.turn(t.Context())
	s.put(t, source, text(2, entry("2", "")))
	w.full = true
	wantState(t, b.turn(t.Context()), admin.FleetConverged, "the disk is full")
	w.full = false
	b.poll(t.Context())
	w.full = true
	b.converge(t.Context())
	if got := b.Status(); got.Serial != 2 || got.State != admin.FleetHeld || w.live() != "1" {
		t.Errorf("%q is live: %+v", w.live(), got)
	}
	w.full, b.failures = false, map[string]failure{}
	wantState(t, b.turn(t.Context()), admin.FleetConverged, "")
}

// TestABoxThatIsKilledBetweenAnyTwoChangesConverges kills the box before each change that it makes, and starts it again.
func TestABoxThatIsKilledBetweenAnyTwoChangesConverges(t *testing.T) {
	s, source := newSigner(t), t.TempDir()
	for _, rollout := range []string{"", `, "rollout": {"stages": [{"percent": 5, "requests": 100}]}`} {
		killed := 0
		for kill := 0; ; kill++ {
			w := newWorld(t)
			s.put(t, source, text(1, entry("1", "")))
			w.box(s, "b", source).turn(t.Context())
			s.put(t, source, text(2, `, "settings": {"keep_versions": 3}`+entry("2", rollout)))
			w.left = kill
			ctx, cancel := context.WithCancel(t.Context())
			w.cancel = cancel
			w.box(s, "b", source).turn(ctx)
			cancel()
			if w.left != 0 && kill > 0 || w.live() == "" {
				break
			}
			killed++
			w.left = -1
			b := w.box(s, "b", source)
			b.turn(t.Context())
			if r, running := w.rollouts["cat"]; running { // which ends well
				r.State = admin.RolloutDone
				w.rollouts["cat"] = r
				w.point("cat", edgewise.LiveLabel, r.Plan.Version)
				b.turn(t.Context())
			}
			if got := b.Status(); got.State != admin.FleetConverged || w.live() != "2" || len(w.records["cat"].Versions) != 2 {
				t.Fatalf("killed before change %d it is %s, %q is live, with %d versions: %+v", kill, got.State, w.live(),
					len(w.records["cat"].Versions), got.Wishes)
			}
		}
		if killed < 6 {
			t.Errorf("%s: it was killed at %d places only", rollout, killed)
		}
	}
}

func TestABoxWithoutASourceDoesNothing(t *testing.T) {
	w := newWorld(t)
	f := New(Config{Fleet: config.Fleet{Interval: time.Minute}, Documents: w, Models: w, Rollouts: w, Box: w})
	f.Run(t.Context()) // returns
	if f.Metrics() != nil || f.Status().State != admin.FleetOff || edgewise.KindOf(f.Poll()) != edgewise.Conflict || f.failures != nil {
		t.Errorf("%+v", f.Status())
	}
}

func TestABoxForgetsItsFleetWhenItIsTold(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	s.put(t, source, text(9, entry("1", "")))
	b := w.box(s, "b", source)
	b.turn(t.Context())
	s.put(t, source, strings.Replace(text(1, entry("2", "")), "shops", "labs", 1))
	wantState(t, b.turn(t.Context()), admin.FleetConverged, `of the fleet "labs"`)
	if err := b.Forget(); err != nil {
		t.Fatal(err)
	}
	wantState(t, b.turn(t.Context()), admin.FleetConverged, "")
	if w.live() != "2" || len(w.documents[Bucket]) != 2 || maps.Equal(b.state.Attempts, map[string]attempt{}) {
		t.Errorf("%q is live", w.live())
	}
}

func TestADiffChangesNothing(t *testing.T) {
	w, s, source := newWorld(t), newSigner(t), t.TempDir()
	b := w.box(s, "b", source)
	d, err := b.Diff(text(1, entry("1", "")))
	if err != nil || len(d.Wishes) != 1 || d.Wishes[0].Next != admin.FleetImport || w.installs != 0 || len(w.documents) != 0 {
		t.Errorf("%v: %+v", err, d)
	}
	if _, err := b.Diff("{}"); edgewise.KindOf(err) != edgewise.Invalid {
		t.Error(err)
	}
}

func TestABackOffHasABound(t *testing.T) {
	f := New(Config{Fleet: config.Fleet{Interval: time.Second}})
	var got bytes.Buffer
	for _, n := range []int{1, 2, 3, 12, 13, 1000} {
		fmt.Fprint(&got, f.backOff(n), " ")
	}
	if got.String() != "1s 2s 4s 34m8s 1h0m0s 1h0m0s " {
		t.Error(got.String())
	}
}
