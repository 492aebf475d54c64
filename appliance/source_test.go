package appliance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/observe"
)

// folder is a model repository on disk.
type folder struct {
	*house
	dir    string
	engine *engine
}

// newFolder makes a house with an empty repository.
func newFolder(t *testing.T, mode string) *folder {
	t.Helper()
	f := &folder{house: newHouse(t), dir: t.TempDir()}
	f.sources.config = config.Repository{Folders: []string{f.dir}, ControlMode: mode, PollInterval: 20 * time.Millisecond}
	f.engine = &engine{Manager: f.manager, library: f.library, strict: true, watch: newWatch(observe.NewLatencies(observe.LatencyConfig{}))}
	f.engine.started.Store(true)
	return f
}

// write puts a file into the repository.
func (f *folder) write(path, content string) {
	f.t.Helper()
	name := filepath.Join(f.dir, path)
	f.must(os.MkdirAll(filepath.Dir(name), 0o755))
	f.must(os.WriteFile(name, []byte(content), 0o644))
}

func (f *folder) load(name string) error {
	return f.engine.Load(f.t.Context(), name, edgewise.LoadOverride{})
}

// index writes what the repository index says, a model after the other.
func (f *folder) index() string {
	var said []string
	for _, s := range f.engine.Index() {
		text := s.ID.Name
		if s.ID.Version != 0 {
			text = fmt.Sprintf("%s/%d %v", s.ID.Name, s.ID.Version, s.State)
		}
		if s.Reason != "" {
			text += " (" + s.Reason + ")"
		}
		said = append(said, text)
	}
	return strings.Join(said, ", ")
}

func (f *folder) wantIndex(want string) {
	f.t.Helper()
	f.eventually("the index "+want, func() bool { return f.index() == want })
	if got := f.index(); got != want {
		f.t.Errorf("the index is %q, want %q", got, want)
	}
}

func (f *folder) eventually(what string, done func() bool) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(end) {
			f.t.Errorf("%s did not come", what)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestExplicitControl(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	f.write("n/1/model.onnx", "x")
	f.must(f.sources.start(t.Context()))
	f.wantIndex("m, n")
	f.wantAnswer("m", "not_found")
	f.must(f.load("m"))
	f.wantAnswer("m", "one")
	f.wantIndex("m/1 READY, n")

	err := f.load("n")
	f.wantRefusal(err, edgewise.Invalid, "load failed for model 'n': version 1 is at UNAVAILABLE state: broken on purpose;")
	f.wantIndex("m/1 READY, n/1 UNAVAILABLE (broken on purpose)")
	if f.engine.Ready() {
		t.Error("ready although a model failed")
	}
	f.must(f.engine.Unload(t.Context(), "n", false))
	f.wantIndex("m/1 READY, n/1 UNAVAILABLE (unloaded)")
	if !f.engine.Ready() {
		t.Error("not ready because of a model that was unloaded")
	}
	f.wantRefusal(f.load("none"), edgewise.Invalid, "failed to load 'none', failed to poll from model repository")
	f.must(f.engine.Unload(t.Context(), "none", false))
	f.must(f.engine.Unload(t.Context(), "m", false))
	f.wantIndex("m/1 UNAVAILABLE (unloaded), n/1 UNAVAILABLE (unloaded)")
	f.wantAnswer("m", "not_found")
	f.must(f.load("m"))
	f.wantAnswer("m", "one")
}

func TestAFolderThatChangesIsReplacedUnderItsNumber(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	f.must(f.load("m"))
	f.must(f.load("m")) // nothing has changed
	if n := f.backend.loads.Load(); n != 1 {
		t.Errorf("%d loads, want 1", n)
	}
	f.write("m/1/model.onnx", "other")
	f.must(f.load("m"))
	f.wantAnswer("m", "other")
	f.wantIndex("m/1 READY")
	f.write("m/1/model.onnx", "x")
	f.wantRefusal(f.load("m"), edgewise.Invalid, "load failed for model 'm': version 1 is at UNAVAILABLE state: broken on purpose;")
	f.wantAnswer("m", "other")
	f.wantIndex("m/1 READY")
	f.write("m/1/model.onnx", "third")
	f.must(f.load("m"))
	f.wantAnswer("m", "third")
	f.eventually("the end of what was stored earlier", func() bool {
		r, err := f.store.Record("m")
		return err == nil && len(r.Versions) == 1
	})
	if r, err := f.Record("m"); err != nil || len(r.Versions) != 1 || r.Versions[0].ID.Version != 1 {
		t.Errorf("the library shows %v, %v", r, err)
	}
	_, err := f.push("m", "four", 0, true)
	f.wantRefusal(err, edgewise.Conflict, `model "m" comes from a model repository: change its folder, and load it`)
}

func TestVersionPolicies(t *testing.T) {
	for _, test := range []struct{ name, policy, want string }{
		{"none", "", "m/3 READY"},
		{"latest", "version_policy { latest { num_versions: 2 } }", "m/2 READY, m/3 READY"},
		{"all", "version_policy { all { } }", "m/1 READY, m/2 READY, m/3 READY"},
		{"specific", "version_policy { specific { versions: [1, 3, 9] } }", "m/1 READY, m/3 READY"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t, config.ControlExplicit)
			for _, version := range []string{"1", "2", "3", "04", "x", "0"} {
				f.write("m/"+version+"/model.onnx", "v"+version)
			}
			f.write("m/config.pbtxt", test.policy)
			f.must(f.load("m"))
			f.wantIndex(test.want)
			f.wantAnswer("m", "v3")
		})
	}
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	f.write("m/config.pbtxt", "version_policy { specific { versions: 2 } }")
	f.wantRefusal(f.load("m"), edgewise.Invalid, "failed to load 'm', failed to poll from model repository: at least one version must be available under the version policy of model 'm'")
}

func TestOverridesHoldForOneLoad(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	load := func(o edgewise.LoadOverride) error { return f.engine.Load(t.Context(), "m", o) }
	parameter := func() string {
		v, _, err := f.manager.Version(edgewise.ModelID{Name: "m"})
		f.must(err)
		return v.Model.Parameters["a"].StringValue
	}
	f.must(load(edgewise.LoadOverride{Config: []byte(`{"parameters": {"a": {"string_value": "b"}}}`)}))
	if got := parameter(); got != "b" {
		t.Errorf("the parameter is %q", got)
	}
	f.must(f.load("m"))
	if got := parameter(); got != "" {
		t.Errorf("after a plain load the parameter is %q", got)
	}
	f.must(load(edgewise.LoadOverride{Config: []byte("{}"), Files: map[string][]byte{"7/model.onnx": []byte("seven")}}))
	f.wantAnswer("m", "seven")
	f.wantIndex("m/7 READY")
	f.must(f.load("m"))
	f.wantAnswer("m", "one")
	f.wantIndex("m/1 READY")

	f.must(f.engine.Load(t.Context(), "new", edgewise.LoadOverride{Config: []byte("{}"), Files: map[string][]byte{"1/model.onnx": []byte("from the client")}}))
	f.wantAnswer("new", "from the client")

	f.wantRefusal(load(edgewise.LoadOverride{Files: map[string][]byte{"1/model.onnx": nil}}), edgewise.Invalid, "failed to load 'm', failed to poll from model repository: Load parameter 'config' must be specified for model file override")
	for _, path := range []string{"../m/1/model.onnx", "/etc/passwd", "1/../../x", ""} {
		err := load(edgewise.LoadOverride{Config: []byte("{}"), Files: map[string][]byte{path: nil}})
		if err == nil || edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), "must stay within model directory") {
			t.Errorf("path %q: %v", path, err)
		}
	}
	err := load(edgewise.LoadOverride{Config: []byte("{")})
	f.wantRefusal(err, edgewise.Invalid, "failed to load 'm', failed to poll from model repository: config.json:1: unexpected end of JSON input")
	f.wantAnswer("m", "one")
}

func TestEnsemblesFollowWhatTheyRun(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("a/1/model.onnx", "A")
	f.write("b/1/model.onnx", "B")
	f.write("E/config.pbtxt", both)
	f.must(os.MkdirAll(filepath.Join(f.dir, "E", "1"), 0o755))
	f.must(f.load("b"))
	f.must(f.load("E")) // and a with it
	f.wantBoth("A B")
	f.wantIndex("E/1 READY, a/1 READY, b/1 READY")

	f.write("b/1/model.onnx", "other")
	f.must(f.load("b"))
	f.wantBoth("A other")

	f.must(f.engine.Unload(t.Context(), "b", false))
	f.wantIndex("E/1 UNAVAILABLE (unloaded), a/1 READY, b/1 UNAVAILABLE (unloaded)")
	f.must(f.load("b"))
	f.wantBoth("A other")

	f.must(f.engine.Unload(t.Context(), "E", true)) // b was asked for, a was not
	f.wantIndex("E/1 UNAVAILABLE (unloaded), a/1 UNAVAILABLE (unloaded), b/1 READY")
	f.must(f.engine.Unload(t.Context(), "b", false))
	f.must(f.load("b"))
	f.wantIndex("E/1 UNAVAILABLE (unloaded), a/1 UNAVAILABLE (unloaded), b/1 READY")

	f.write("E/config.pbtxt", strings.ReplaceAll(both, `"b"`, `"E"`))
	err := f.load("E")
	if err == nil || !strings.Contains(err.Error(), "circular dependency between ensembles: E, E") {
		t.Errorf("an ensemble that runs itself: %v", err)
	}
}

func TestModesWithoutControl(t *testing.T) {
	for _, mode := range []string{config.ControlNone, config.ControlPoll} {
		f := newFolder(t, mode)
		f.write("m/1/model.onnx", "one")
		f.must(f.sources.start(t.Context()))
		f.wantAnswer("m", "one")
		const refusal = "explicit model load / unload is not allowed if polling is enabled"
		f.wantRefusal(f.load("m"), edgewise.Unavailable, refusal)
		f.wantRefusal(f.engine.Unload(t.Context(), "m", false), edgewise.Unavailable, refusal)
	}
}

func TestStartFails(t *testing.T) {
	f := newFolder(t, config.ControlNone)
	f.write("m/1/model.onnx", "x")
	f.write("n/1/model.onnx", "good")
	f.sources.config.ExitOnError = true
	if err := f.sources.start(t.Context()); err == nil || !strings.Contains(err.Error(), "failed to load all models: load failed for model 'm'") {
		t.Errorf("got %v", err)
	}
	f.wantAnswer("n", "good")
	f.sources.config.ExitOnError = false
	f.must(f.sources.start(t.Context()))
	if f.engine.Ready() {
		t.Error("ready although a model failed")
	}
}

func TestTheSameModelInTwoRepositories(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	second := t.TempDir()
	f.sources.config.Folders = append(f.sources.config.Folders, second)
	f.write("m/1/model.onnx", "one")
	f.must(os.MkdirAll(filepath.Join(second, "m", "1"), 0o755))
	f.wantRefusal(f.load("m"), edgewise.Invalid, "failed to load 'm', failed to poll from model repository: model appears in two or more repositories")
	f.wantIndex("m (model appears in two or more repositories)")
}

func TestPolling(t *testing.T) {
	f := newFolder(t, config.ControlPoll)
	f.write("m/1/model.onnx", "one")
	f.must(f.sources.start(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.sources.watch(ctx)
	}()
	f.wantAnswer("m", "one")
	f.write("m/1/model.onnx", "changed")
	f.write("new/1/model.onnx", "new")
	f.eventually("the changed model", func() bool { return f.ask("m") == "changed" })
	f.eventually("the new model", func() bool { return f.ask("new") == "new" })
	f.write("m/1/model.onnx", "x")
	f.eventually("the refusal", func() bool { m := f.sources.brought("m"); return m != nil && !f.sources.serves(m) })
	f.wantAnswer("m", "changed")
	f.must(os.RemoveAll(filepath.Join(f.dir, "new")))
	f.eventually("the end of the model", func() bool { return f.ask("new") == "not_found" })
	stop()
	<-done
}

// TestWhatAnEarlierRunBroughtIsReadAgain starts anew on the same store.
func TestWhatAnEarlierRunBroughtIsReadAgain(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	f.must(f.load("m"))
	f.must(f.sources.forget(t.Context(), "m"))
	f.eventually("the end of what was stored", func() bool { _, err := f.store.Record("m"); return err != nil })
	f.must(f.load("m"))
	f.wantAnswer("m", "one")
}

// TestALoadThatFailsIsInvalid loads what cannot be honoured, from a folder and from nowhere, without a repository too.
func TestALoadThatFailsIsInvalid(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("d/1/model.onnx", "one")
	f.write("d/config.pbtxt", "model_transaction_policy { decoupled: true }")
	f.wantRefusal(f.load("d"), edgewise.Invalid, `load failed for model 'd': version 1 is at UNAVAILABLE state: model "d": model_transaction_policy.decoupled: a request has exactly one response;`)
	for id, want := range map[edgewise.ModelID]string{
		{Name: "d"}:             "Request for unknown model: 'd' has no available versions",
		{Name: "d", Version: 1}: "Request for unknown model: 'd' version 1 is not at ready state",
		{Name: "d", Version: 2}: "Request for unknown model: 'd' is not found",
		{Name: "p"}:             "Request for unknown model: 'p' is not found",
	} {
		if _, _, err := f.engine.Version(id); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", id, err, want)
		}
	}
	f.sources.config.Folders = nil
	f.wantRefusal(f.load("none"), edgewise.Invalid, "failed to load 'none', failed to poll from model repository")
	f.must(f.engine.Unload(t.Context(), "none", true))
}

// TestTheSameRepositoryTwiceIsOne names a folder in three spellings: its models appear once.
func TestTheSameRepositoryTwiceIsOne(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	c := f.sources.config
	c.Folders = []string{f.dir, f.dir + "/", filepath.Join(f.dir, "x") + "/.."}
	f.sources.config = newSources(f.library, c, f.sources.logger).config
	f.must(f.load("m"))
	f.wantAnswer("m", "one")
}

// TestAFolderWithoutAVersionIsNotReady: a model that is wanted and has nothing to load keeps the box from being ready.
func TestAFolderWithoutAVersionIsNotReady(t *testing.T) {
	f := newFolder(t, config.ControlNone)
	f.write("m/1/model.onnx", "one")
	f.write("none/config.pbtxt", `backend: "onnxruntime"`)
	f.must(f.sources.start(t.Context()))
	f.wantAnswer("m", "one")
	f.wantIndex("m/1 READY, none/1 UNAVAILABLE (at least one version must be available under the version policy of model 'none')")
	if !f.engine.Live() || f.engine.Ready() {
		t.Errorf("live %v, ready %v", f.engine.Live(), f.engine.Ready())
	}
	_, _, err := f.engine.Version(edgewise.ModelID{Name: "none"})
	f.wantRefusal(err, edgewise.NotFound, "Request for unknown model: 'none' has no available versions")
}

// TestAMissingRepositoryIsNotLive starts a box of two repositories of which one is not there, in every mode.
func TestAMissingRepositoryIsNotLive(t *testing.T) {
	for _, mode := range []string{config.ControlNone, config.ControlExplicit, config.ControlPoll} {
		t.Run(mode, func(t *testing.T) {
			f := newFolder(t, mode)
			f.write("m/1/model.onnx", "one")
			away := filepath.Join(t.TempDir(), "away")
			f.sources.config.Folders = []string{away, f.dir}
			f.engine.strict = false
			f.sources.config.ExitOnError = true
			if err := f.sources.start(t.Context()); err == nil || !strings.Contains(err.Error(), "model repository: open "+away) {
				t.Errorf("it starts, or says %v", err)
			}
			f.sources.config.ExitOnError = false
			f.must(f.sources.start(t.Context()))
			if f.engine.Live() || f.engine.Ready() {
				t.Errorf("live %v, ready %v", f.engine.Live(), f.engine.Ready())
			}
			f.must(os.Mkdir(away, 0o755))
			if mode != config.ControlPoll {
				return
			}
			(&poller{sources: f.sources, tried: map[string]string{}}).look(t.Context())
			if !f.engine.Live() || !f.engine.Ready() {
				t.Error("the folder is there, and the box is not live")
			}
		})
	}
}

// TestPollingUnloadsAModelThatAppearsTwice copies a model into a second repository, and takes it out of the first.
func TestPollingUnloadsAModelThatAppearsTwice(t *testing.T) {
	f := newFolder(t, config.ControlPoll)
	second := t.TempDir()
	f.sources.config.Folders = append(f.sources.config.Folders, second)
	f.write("m/1/model.onnx", "one")
	f.write("other/1/model.onnx", "else")
	f.must(f.sources.start(t.Context()))
	p := &poller{sources: f.sources, tried: map[string]string{}}
	p.look(t.Context())
	f.wantIndex("m/1 READY, other/1 READY")
	f.must(os.CopyFS(filepath.Join(second, "m"), os.DirFS(filepath.Join(f.dir, "m"))))
	p.look(t.Context())
	f.wantIndex("m (model appears in two or more repositories), other/1 READY")
	if !f.engine.Ready() {
		t.Error("not ready because of a model that is nowhere wanted")
	}
	f.must(os.RemoveAll(filepath.Join(f.dir, "m")))
	p.look(t.Context())
	f.wantAnswer("m", "one")
	f.wantIndex("m/1 READY, other/1 READY")
}
