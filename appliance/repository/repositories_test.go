package repository

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	layout "github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/test/models"
)

// folder is a model repository on disk.
type folder struct {
	*models.Registry
	dir     string
	open    func(url string) Source
	sources *Repositories
}

// newFolder makes an empty repository.
func newFolder(t *testing.T, mode string) *folder {
	t.Helper()
	f := &folder{Registry: models.New(t, 0), dir: t.TempDir()}
	f.configure(config.Repository{Folders: []string{f.dir}, ControlMode: mode, PollInterval: 20 * time.Millisecond})
	return f
}

// configure makes the repositories again.
func (f *folder) configure(c config.Repository) {
	defaults := modelconfig.Defaults{Formats: models.Formats()}
	f.sources = New(c, f.open, f.Registry.Registry, defaults, slog.New(slog.DiscardHandler))
	f.sources.loading = false
}

// live tells whether every repository could be read.
func (f *folder) live() bool { return f.sources.Initialized() }

// ready tells whether everything that is wanted is ready.
func (f *folder) ready() bool { return f.live() && f.Manager.Ready() && f.sources.Ready() }

// version returns why a version does not answer.
func (f *folder) version(id edgewise.ModelID) error {
	if _, _, err := f.Manager.Version(id); err != nil {
		return f.sources.Explain(id, err)
	}
	return nil
}

// write puts a file into the repository.
func (f *folder) write(path, content string) {
	f.T.Helper()
	name := filepath.Join(f.dir, path)
	f.Must(os.MkdirAll(filepath.Dir(name), 0o755))
	f.Must(os.WriteFile(name, []byte(content), 0o644))
}

func (f *folder) load(name string) error {
	return f.sources.Load(f.T.Context(), name, edgewise.LoadOverride{})
}

// index writes what the repository index says, a model after the other.
func (f *folder) index() string {
	var said []string
	for _, s := range f.sources.Index(f.Manager.Statuses()) {
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
	f.T.Helper()
	f.eventually("the index "+want, func() bool { return f.index() == want })
	if got := f.index(); got != want {
		f.T.Errorf("the index is %q, want %q", got, want)
	}
}

func (f *folder) eventually(what string, done func() bool) {
	f.T.Helper()
	for end := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(end) {
			f.T.Errorf("%s did not come", what)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestExplicitControl(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	f.write("n/1/model.onnx", "x")
	f.Must(f.sources.Start(t.Context()))
	f.wantIndex("m, n")
	f.WantAnswer("m", "not_found")
	f.Must(f.load("m"))
	f.WantAnswer("m", "one")
	f.wantIndex("m/1 READY, n")

	err := f.load("n")
	f.WantRefusal(err, edgewise.Invalid, "load failed for model 'n': version 1 is at UNAVAILABLE state: broken on purpose;")
	f.wantIndex("m/1 READY, n/1 UNAVAILABLE (broken on purpose)")
	if f.ready() {
		t.Error("ready although a model failed")
	}
	f.Must(f.sources.Unload(t.Context(), "n", false))
	f.wantIndex("m/1 READY, n/1 UNAVAILABLE (unloaded)")
	if !f.ready() {
		t.Error("not ready because of a model that was unloaded")
	}
	f.WantRefusal(f.load("none"), edgewise.Invalid, "failed to load 'none', failed to poll from model repository: "+
		"model not found in any model repository")
	f.Must(f.sources.Unload(t.Context(), "none", false))
	f.Must(f.sources.Unload(t.Context(), "m", false))
	f.wantIndex("m/1 UNAVAILABLE (unloaded), n/1 UNAVAILABLE (unloaded)")
	f.WantAnswer("m", "not_found")
	f.Must(f.load("m"))
	f.WantAnswer("m", "one")
}

func TestAFolderThatChangesIsReplacedUnderItsNumber(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	f.Must(f.load("m"))
	f.Must(f.load("m")) // nothing has changed
	if n := f.Backend.Loads.Load(); n != 1 {
		t.Errorf("%d loads, want 1", n)
	}
	f.write("m/1/model.onnx", "other")
	f.Must(f.load("m"))
	f.WantAnswer("m", "other")
	f.wantIndex("m/1 READY")
	f.write("m/1/model.onnx", "x")
	f.WantRefusal(f.load("m"), edgewise.Invalid, "load failed for model 'm': version 1 is at UNAVAILABLE state: broken on purpose;")
	f.WantAnswer("m", "other")
	f.wantIndex("m/1 READY")
	f.write("m/1/model.onnx", "third")
	f.Must(f.load("m"))
	f.WantAnswer("m", "third")
	f.eventually("the end of what was stored earlier", func() bool {
		r, err := f.Store.Record("m")
		return err == nil && len(r.Versions) == 1
	})
	if r, err := f.Record("m"); err != nil || len(r.Versions) != 1 || r.Versions[0].ID.Version != 1 {
		t.Errorf("the library shows %v, %v", r, err)
	}
	_, err := f.PushFile("m", "four", 0, true)
	f.WantRefusal(err, edgewise.Conflict, `model "m" comes from a model repository: change its folder, and load it`)
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
			f.Must(f.load("m"))
			f.wantIndex(test.want)
			f.WantAnswer("m", "v3")
		})
	}
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	f.write("m/config.pbtxt", "version_policy { specific { versions: 2 } }")
	f.WantRefusal(f.load("m"), edgewise.Invalid,
		"failed to load 'm', failed to poll from model repository: at least one version must be available under the "+
			"version policy of model 'm'")
}

func TestOverridesOfALoad(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	load := func(o edgewise.LoadOverride) error { return f.sources.Load(t.Context(), "m", o) }
	parameter := func() string {
		v, _, err := f.Manager.Version(edgewise.ModelID{Name: "m"})
		f.Must(err)
		return v.Model.Parameters["a"].StringValue
	}
	b := edgewise.LoadOverride{Config: []byte(`{"parameters": {"a": {"string_value": "b"}}}`)}
	for _, test := range []struct {
		after string
		do    func() error
		want  string
	}{
		{"a load with a configuration", func() error { return load(b) }, "b"},
		{"a plain load of the same folder", func() error { return nil }, "b"},
		{"a change of the folder", func() error { f.write("m/labels.txt", "cat"); return nil }, ""},
		{"another load with a configuration", func() error { return load(b) }, "b"},
		{"an unload", func() error { return f.sources.Unload(t.Context(), "m", false) }, ""},
	} {
		f.Must(test.do())
		f.Must(f.load("m"))
		if got := parameter(); got != test.want {
			t.Errorf("a plain load after %s: the parameter is %q, want %q", test.after, got, test.want)
		}
	}
	f.Must(load(edgewise.LoadOverride{Config: []byte("{}"), Files: map[string][]byte{"7/model.onnx": []byte("seven")}}))
	f.WantAnswer("m", "seven")
	f.wantIndex("m/7 READY")
	f.Must(f.load("m"))
	f.WantAnswer("m", "one")
	f.wantIndex("m/1 READY")

	f.Must(f.sources.Load(t.Context(), "new", edgewise.LoadOverride{
		Config: []byte("{}"),
		Files:  map[string][]byte{"1/model.onnx": []byte("from the client")},
	}))
	f.WantAnswer("new", "from the client")

	f.WantRefusal(load(edgewise.LoadOverride{Files: map[string][]byte{"1/model.onnx": nil}}), edgewise.Invalid,
		"failed to load 'm', failed to poll from model repository: Load parameter 'config' must be specified for model "+
			"file override")
	f.WantRefusal(load(edgewise.LoadOverride{
		Config: []byte("{}"), Files: map[string][]byte{strings.Repeat("a", 256): nil},
	}), edgewise.Internal, "failed to load 'm', failed to poll from model repository: file parameter 'file:"+
		strings.Repeat("a", 200)+"': a name of 256 bytes cannot be written: at most 255 are possible")
	for _, path := range []string{"../m/1/model.onnx", "/etc/passwd", "1/../../x", ""} {
		err := load(edgewise.LoadOverride{Config: []byte("{}"), Files: map[string][]byte{path: nil}})
		if err == nil || edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), "must stay within model directory") {
			t.Errorf("path %q: %v", path, err)
		}
	}
	err := load(edgewise.LoadOverride{Config: []byte("{")})
	f.WantRefusal(err, edgewise.Invalid,
		"failed to load 'm', failed to poll from model repository: config.json:1: unexpected end of JSON input")
	f.WantAnswer("m", "one")
}

// TestTheOldVersionServesUntilTheNewOneIsReady adds a version that cannot be loaded, and then makes it good.
func TestTheOldVersionServesUntilTheNewOneIsReady(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	f.Must(f.load("m"))
	f.write("m/2/model.onnx", "x")
	for range 2 {
		f.WantRefusal(f.load("m"), edgewise.Invalid,
			"load failed for model 'm': version 2 is at UNAVAILABLE state: broken on purpose;")
		f.WantAnswer("m", "one")
		if err := f.version(edgewise.ModelID{Name: "m", Version: 1}); err != nil {
			t.Errorf("by its number: %v", err)
		}
	}
	f.write("m/2/model.onnx", "two")
	f.Must(f.load("m"))
	f.WantAnswer("m", "two")
	f.wantIndex("m/2 READY")
	f.WantRefusal(f.version(edgewise.ModelID{Name: "m", Version: 1}), edgewise.Unavailable,
		"Request for unknown model: 'm' version 1 is not at ready state")
}

func TestEnsemblesFollowWhatTheyRun(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("a/1/model.onnx", "A")
	f.write("b/1/model.onnx", "B")
	f.write("E/config.pbtxt", models.Both)
	f.Must(os.MkdirAll(filepath.Join(f.dir, "E", "1"), 0o755))
	f.Must(f.load("b"))
	f.Must(f.load("E")) // and a with it
	f.WantBoth("A B")
	f.wantIndex("E/1 READY, a/1 READY, b/1 READY")

	f.write("b/1/model.onnx", "other")
	f.Must(f.load("b"))
	f.WantBoth("A other")

	f.Must(f.sources.Unload(t.Context(), "b", false))
	f.wantIndex("E/1 UNAVAILABLE (unloaded), a/1 READY, b/1 UNAVAILABLE (unloaded)")
	f.Must(f.load("b"))
	f.WantBoth("A other")

	f.Must(f.sources.Unload(t.Context(), "E", true)) // b was asked for, a was not
	f.wantIndex("E/1 UNAVAILABLE (unloaded), a/1 UNAVAILABLE (unloaded), b/1 READY")
	f.Must(f.sources.Unload(t.Context(), "b", false))
	f.Must(f.load("b"))
	f.wantIndex("E/1 UNAVAILABLE (unloaded), a/1 UNAVAILABLE (unloaded), b/1 READY")

	f.write("E/config.pbtxt", strings.ReplaceAll(models.Both, `"b"`, `"E"`))
	err := f.load("E")
	if err == nil || !strings.Contains(err.Error(), "circular dependency between ensembles: E, E") {
		t.Errorf("an ensemble that runs itself: %v", err)
	}
}

func TestModesWithoutControl(t *testing.T) {
	for _, mode := range []string{config.ControlNone, config.ControlPoll} {
		f := newFolder(t, mode)
		f.write("m/1/model.onnx", "one")
		f.Must(f.sources.Start(t.Context()))
		f.WantAnswer("m", "one")
		const refusal = "explicit model load / unload is not allowed if polling is enabled"
		f.WantRefusal(f.load("m"), edgewise.Unavailable, refusal)
		f.WantRefusal(f.sources.Unload(t.Context(), "m", false), edgewise.Unavailable, refusal)
	}
}

func TestStartFails(t *testing.T) {
	f := newFolder(t, config.ControlNone)
	f.write("m/1/model.onnx", "x")
	f.write("n/1/model.onnx", "good")
	f.sources.config.ExitOnError = true
	if err := f.sources.Start(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "failed to load all models: load failed for model 'm'") {
		t.Errorf("got %v", err)
	}
	f.WantAnswer("n", "good")
	f.sources.config.ExitOnError = false
	f.Must(f.sources.Start(t.Context()))
	if f.ready() {
		t.Error("ready although a model failed")
	}
}

func TestTheSameModelInTwoRepositories(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	second := t.TempDir()
	f.sources.sources = append(f.sources.sources, Folder{layout.Dir(second)})
	f.write("m/1/model.onnx", "one")
	f.Must(os.MkdirAll(filepath.Join(second, "m", "1"), 0o755))
	f.WantRefusal(f.load("m"), edgewise.Invalid,
		"failed to load 'm', failed to poll from model repository: model appears in two or more repositories")
	f.wantIndex("m (model appears in two or more repositories)")
}

func TestPolling(t *testing.T) {
	f := newFolder(t, config.ControlPoll)
	f.write("m/1/model.onnx", "one")
	f.Must(f.sources.Start(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.sources.Watch(ctx)
	}()
	f.WantAnswer("m", "one")
	f.write("m/1/model.onnx", "changed")
	f.write("new/1/model.onnx", "new")
	f.eventually("the changed model", func() bool { return f.Ask("m") == "changed" })
	f.eventually("the new model", func() bool { return f.Ask("new") == "new" })
	f.write("m/1/model.onnx", "x")
	f.eventually("the refusal", func() bool { m := f.sources.brought("m"); return m != nil && !f.sources.serves(m) })
	f.WantAnswer("m", "changed")
	f.Must(os.RemoveAll(filepath.Join(f.dir, "new")))
	f.eventually("the end of the model", func() bool { // it is unloaded first, and forgotten then
		return f.sources.brought("new") == nil && f.Ask("new") == "not_found"
	})
	for id, want := range map[edgewise.ModelID]string{
		{Name: "new"}:             "Request for unknown model: 'new' has no available versions",
		{Name: "new", Version: 1}: "what the manager says", {Name: "never"}: "what the manager says",
	} {
		f.WantRefusal(f.sources.Explain(id, edgewise.Errorf("test", edgewise.NotFound, "what the manager says")),
			edgewise.NotFound, want)
	}
	stop()
	<-done
}

// TestWhatAnEarlierRunBroughtIsReadAgain starts again on the same store.
func TestWhatAnEarlierRunBroughtIsReadAgain(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	f.Must(f.load("m"))
	f.Must(f.sources.forget(t.Context(), "m"))
	f.eventually("the end of what was stored", func() bool { _, err := f.Store.Record("m"); return err != nil })
	f.Must(f.load("m"))
	f.WantAnswer("m", "one")
}

// TestALoadThatFailsIsInvalid loads what cannot be honoured, from a folder and from nowhere, without a repository too.
func TestALoadThatFailsIsInvalid(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("d/1/model.onnx", "one")
	f.write("d/config.pbtxt", "model_transaction_policy { decoupled: true }")
	f.WantRefusal(f.load("d"), edgewise.Invalid, `load failed for model 'd': version 1 is at UNAVAILABLE state: model `+
		`"d": model_transaction_policy.decoupled: models of platform onnxruntime_onnx have exactly one response to a request;`)
	for id, want := range map[edgewise.ModelID]string{
		{Name: "d"}:             "Request for unknown model: 'd' has no available versions",
		{Name: "d", Version: 1}: "Request for unknown model: 'd' version 1 is not at ready state",
		{Name: "d", Version: 2}: "Request for unknown model: 'd' is not found",
		{Name: "p"}:             "Request for unknown model: 'p' is not found",
	} {
		if err := f.version(id); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", id, err, want)
		}
	}
	f.sources.sources = nil
	f.WantRefusal(f.load("none"), edgewise.Invalid, "failed to load 'none', failed to poll from model repository")
	f.Must(f.sources.Unload(t.Context(), "none", true))
}

func TestTheLogNamesFoldersThatAreNotVersions(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	log := &bytes.Buffer{}
	f.sources.logger = slog.New(slog.NewTextHandler(log, nil))
	for _, path := range []string{"1/model.onnx", "003/model.onnx", "003/more", "abc/model.onnx", "warmup/data", "labels.txt"} {
		f.write("m/"+path, "one")
	}
	f.Must(f.load("m"))
	for said, times := range map[string]int{
		"ignore version directory '003' which contains leading zeros in its directory name": 1,
		"ignore version directory 'abc' which fails to convert to integral number":          1,
		"ignore version directory": 2,
	} {
		if n := strings.Count(log.String(), said); n != times {
			t.Errorf("the log has %q %d times, want %d:\n%s", said, n, times, log)
		}
	}
}

// TestTheSameRepositoryTwiceIsOne names a folder in three spellings: its models appear once.
func TestTheSameRepositoryTwiceIsOne(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("m/1/model.onnx", "one")
	c := f.sources.config
	c.Folders = []string{f.dir, f.dir + "/", filepath.Join(f.dir, "x") + "/.."}
	f.configure(c)
	f.Must(f.load("m"))
	f.WantAnswer("m", "one")
}

// TestAFolderWithoutAVersionIsNotReady: a model that is wanted and has nothing to load keeps the box from being ready.
func TestAFolderWithoutAVersionIsNotReady(t *testing.T) {
	f := newFolder(t, config.ControlNone)
	f.write("m/1/model.onnx", "one")
	f.write("none/config.pbtxt", `backend: "onnxruntime"`)
	f.Must(f.sources.Start(t.Context()))
	f.WantAnswer("m", "one")
	f.wantIndex("m/1 READY, none/1 UNAVAILABLE (at least one version must be available under the version policy of model 'none')")
	if !f.live() || f.ready() {
		t.Errorf("live %v, ready %v", f.live(), f.ready())
	}
	err := f.version(edgewise.ModelID{Name: "none"})
	f.WantRefusal(err, edgewise.NotFound, "Request for unknown model: 'none' has no available versions")
}

// TestAMissingRepositoryIsNotLive starts a box of two repositories of which one is not there, in every mode.
func TestAMissingRepositoryIsNotLive(t *testing.T) {
	for _, mode := range []string{config.ControlNone, config.ControlExplicit, config.ControlPoll} {
		t.Run(mode, func(t *testing.T) {
			f := newFolder(t, mode)
			f.write("m/1/model.onnx", "one")
			away := filepath.Join(t.TempDir(), "away")
			f.sources.sources = []Source{Folder{layout.Dir(away)}, Folder{layout.Dir(f.dir)}}
			f.sources.config.ExitOnError = true
			if err := f.sources.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "model repository: "+away) {
				t.Errorf("it starts, or says %v", err)
			}
			f.sources.config.ExitOnError = false
			f.Must(f.sources.Start(t.Context()))
			if f.live() || f.ready() || !f.sources.Loaded() {
				t.Errorf("live %v, ready %v, loaded %v", f.live(), f.ready(), f.sources.Loaded())
			}
			f.Must(os.Mkdir(away, 0o755))
			if mode != config.ControlPoll {
				return
			}
			(&poller{sources: f.sources, tried: map[string]string{}}).look(t.Context())
			if !f.live() || !f.ready() {
				t.Error("the folder is there, and the box is not live")
			}
		})
	}
}

// TestAModelWhoseReadingPanicsCostsItselfAlone would end the process, at each start.
func TestAModelWhoseReadingPanicsCostsItselfAlone(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.Backend.Hook = func(stage, content string) error {
		if stage == "inspect" && content == "worst" {
			panic("a secret")
		}
		return nil
	}
	f.write("a/1/model.onnx", "worst")
	f.write("b/1/model.onnx", "one")
	for range 2 {
		err := f.sources.Load(t.Context(), "a", edgewise.LoadOverride{})
		if edgewise.KindOf(err) != edgewise.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want an internal error without the panic's text", err)
		}
	}
	f.Must(f.sources.Load(t.Context(), "b", edgewise.LoadOverride{}))
	f.WantAnswer("b", "one")
	f.write("a/1/model.onnx", "two")
	f.Must(f.sources.Load(t.Context(), "a", edgewise.LoadOverride{}))
	f.WantAnswer("a", "two")
}

// TestPollingWaitsForChangedFoldersTogether has 30 models whose folders are new: 200 ms each would be six seconds.
func TestPollingWaitsForChangedFoldersTogether(t *testing.T) {
	f := newFolder(t, config.ControlPoll)
	for i := range 30 {
		f.write(fmt.Sprintf("m%d/1/model.onnx", i), "one")
	}
	begin := time.Now()
	(&poller{sources: f.sources, tried: map[string]string{}}).look(t.Context())
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	for i := range 30 {
		f.WantAnswer(fmt.Sprintf("m%d", i), "one")
	}
}

// TestPollingUnloadsAModelThatAppearsTwice copies a model into a second repository, and takes it out of the first.
func TestPollingUnloadsAModelThatAppearsTwice(t *testing.T) {
	f := newFolder(t, config.ControlPoll)
	second := t.TempDir()
	f.sources.sources = append(f.sources.sources, Folder{layout.Dir(second)})
	f.write("m/1/model.onnx", "one")
	f.write("other/1/model.onnx", "else")
	f.Must(f.sources.Start(t.Context()))
	p := &poller{sources: f.sources, tried: map[string]string{}}
	p.look(t.Context())
	f.wantIndex("m/1 READY, other/1 READY")
	f.Must(os.CopyFS(filepath.Join(second, "m"), os.DirFS(filepath.Join(f.dir, "m"))))
	p.look(t.Context())
	f.wantIndex("m (model appears in two or more repositories), other/1 READY")
	if !f.ready() {
		t.Error("not ready because of a model that is nowhere wanted")
	}
	f.Must(os.RemoveAll(filepath.Join(f.dir, "m")))
	p.look(t.Context())
	f.WantAnswer("m", "one")
	f.wantIndex("m/1 READY, other/1 READY")
}

func TestALoadFromARepositoryReportsEveryFaultOfAnEnsemble(t *testing.T) {
	f := newFolder(t, config.ControlExplicit)
	f.write("a/1/model.onnx", "a")
	f.write("b/1/model.onnx", "b")
	f.write("E/1/keep", "")
	f.write("E/config.json", models.Faulty)
	err := f.load("E")
	models.WantFaults(t, err.Error(), "load failed for model 'E'",
		"ensemble 'E' depends on 'dog' which has no loaded version: failed to load 'dog'")
	if strings.Contains(err.Error(), "there is no model 'dog'") {
		t.Errorf("the missing model is named twice: %v", err)
	}
	f.write("dog/1/model.onnx", "dog")
	models.WantFaults(t, f.load("E").Error(), "load failed for model 'E'")
}

func TestARepositorysFailedLoadsDoNotPileUp(t *testing.T) {
	f := newFolder(t, config.ControlPoll)
	p := &poller{sources: f.sources, tried: map[string]string{}}
	f.write("m/1/model.onnx", "good")
	p.look(t.Context())
	f.WantAnswer("m", "good")
	for i := range 4 {
		f.write("m/1/model.onnx", "x")
		f.write("m/1/more", fmt.Sprint(i))
		p.look(t.Context())
		f.WantAnswer("m", "good")
		if n := f.Numbers("m"); len(n) > 2 {
			t.Errorf("after %d failures %v are stored", i+1, n)
		}
	}
	f.write("m/1/model.onnx", "mended")
	p.look(t.Context())
	f.WantAnswer("m", "mended")
	f.eventually("one version", func() bool { return len(f.Numbers("m")) == 1 })
}
