package repository

import (
	"context"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/edgewise-ai/edgewise"
	layout "github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// elsewhere is a source whose place can be away.
type elsewhere struct {
	now, seen, kept fstest.MapFS
	unlisted        error // of a refresh
	unfetched       error // of a fetch
	refreshed       int
	used            map[string]bool // as the last prune was told
}

func (e *elsewhere) tree(files fstest.MapFS) layout.Repository {
	return layout.Repository{FS: &state{files, e}, Place: "s3://bucket/models", ModelFiles: []string{"model.onnx"}}
}

func (e *elsewhere) Tree() layout.Repository { return e.tree(e.seen) }
func (e *elsewhere) Kept() layout.Repository { return e.tree(e.kept) }
func (e *elsewhere) Received() int64         { return 7 }

func (e *elsewhere) Refresh(context.Context) error {
	e.refreshed++
	if e.unlisted == nil {
		e.seen = maps.Clone(e.now)
	}
	return e.unlisted
}

func (e *elsewhere) Prune(used func(layout.Folder) bool) {
	e.used = map[string]bool{}
	folders, _, _ := e.Tree().Folders()
	for _, f := range folders {
		e.used[f.Name] = used(f)
	}
}

// put writes a file at the place.
func (e *elsewhere) put(name, content string) {
	e.now[name] = &fstest.MapFile{Data: []byte(content), ModTime: time.Unix(int64(len(content)), 0)}
}

// state is a state of the place.
type state struct {
	fstest.MapFS
	of *elsewhere
}

func (f *state) Fetch(context.Context, []string) error { return f.of.unfetched }

func (f *state) Keep(dir string) error {
	for name, file := range f.MapFS {
		if strings.HasPrefix(name, dir+"/") {
			f.of.kept[name] = file
		}
	}
	return nil
}

var _ fs.FS = (*state)(nil)

func newElsewhere(t *testing.T, mode string) (*folder, *elsewhere) {
	t.Helper()
	f, e := newFolder(t, mode), &elsewhere{now: fstest.MapFS{}, seen: fstest.MapFS{}, kept: fstest.MapFS{}}
	f.open = func(string) Source { return e }
	f.configure(config.Repository{Folders: []string{"s3://bucket/models"}, ControlMode: mode, PollInterval: time.Hour})
	return f, e
}

var errAway = edgewise.Errorf("test", edgewise.Unavailable, "s3://bucket/models: unavailable: no route")

func TestAModelComesFromElsewhereAndFollowsIt(t *testing.T) {
	f, e := newElsewhere(t, config.ControlPoll)
	e.put("m/1/model.onnx", "one")
	f.Must(f.sources.Start(t.Context()))
	f.WantAnswer("m", "one")
	p := &poller{sources: f.sources, tried: map[string]string{}}
	p.look(t.Context())
	e.put("m/2/model.onnx", "second")
	p.look(t.Context())
	f.WantAnswer("m", "second")
	if r, err := f.Record("m"); err != nil || r.Versions[0].Origin != "s3://bucket/models/m" {
		t.Errorf("the record of a model from a store: %+v, %v", r, err)
	}
	if !e.used["m"] || len(f.sources.States()) != 1 || !f.sources.States()[0].Up {
		t.Errorf("used %v, states %v", e.used, f.sources.States())
	}
	delete(e.now, "m/1/model.onnx")
	delete(e.now, "m/2/model.onnx")
	e.put("other/1/model.onnx", "other")
	p.look(t.Context())
	f.WantAnswer("other", "other")
	if e.used["m"] || !e.used["other"] {
		t.Errorf("used %v", e.used)
	}
}

// TestWhatServesGoesOnWhileThePlaceIsAway takes the place away, and brings it back with a change.
func TestWhatServesGoesOnWhileThePlaceIsAway(t *testing.T) {
	f, e := newElsewhere(t, config.ControlPoll)
	e.put("m/1/model.onnx", "one")
	f.Must(f.sources.Start(t.Context()))
	p := &poller{sources: f.sources, tried: map[string]string{}}
	p.look(t.Context())
	e.unlisted = errAway
	e.put("m/2/model.onnx", "second")
	p.look(t.Context())
	f.WantAnswer("m", "one")
	if states := f.sources.States(); states[0].Up {
		t.Errorf("states %v", states)
	}
	e.unlisted, e.unfetched = nil, errAway // the list comes, the files do not
	p.look(t.Context())
	f.WantAnswer("m", "one")
	e.unfetched = nil
	p.look(t.Context())
	f.WantAnswer("m", "second")
}

// TestAStartLoadsTheLastGoodStateOfAModelThatCannotBeFetched starts while the list comes and the files do not, and
// while nothing comes.
func TestAStartLoadsTheLastGoodStateOfAModelThatCannotBeFetched(t *testing.T) {
	f, e := newElsewhere(t, config.ControlPoll)
	e.put("m/1/model.onnx", "one")
	e.kept = maps.Clone(e.now)
	e.put("m/2/model.onnx", "second")
	e.unfetched = errAway
	f.Must(f.sources.Start(t.Context()))
	f.WantAnswer("m", "one")
	p := &poller{sources: f.sources, tried: map[string]string{}}
	p.look(t.Context())
	f.WantAnswer("m", "one")
	e.unfetched = nil
	p.look(t.Context())
	f.WantAnswer("m", "second")
	if !f.live() {
		t.Error("it is not live")
	}

	f, e = newElsewhere(t, config.ControlNone)
	e.put("m/1/model.onnx", "one")
	e.seen, e.unlisted = maps.Clone(e.now), errAway
	f.Must(f.sources.Start(t.Context()))
	f.WantAnswer("m", "one")
}

func TestAClientsLoadLooksAgain(t *testing.T) {
	f, e := newElsewhere(t, config.ControlExplicit)
	e.put("m/1/model.onnx", "one")
	f.Must(f.load("m"))
	f.WantAnswer("m", "one")
	e.put("m/1/model.onnx", "changed")
	f.Must(f.load("m"))
	f.WantAnswer("m", "changed")
	e.unlisted = errAway
	f.Must(f.load("m")) // as it was seen last
	f.WantAnswer("m", "changed")
	e.put("n/1/model.onnx", "new")
	f.WantRefusal(f.load("n"), edgewise.Invalid,
		"failed to load 'n', failed to poll from model repository: model not found in any model repository")
	e.unlisted, e.unfetched = nil, errAway
	f.WantRefusal(f.load("n"), edgewise.Unavailable,
		"failed to load 'n', failed to poll from model repository: s3://bucket/models: unavailable: no route")
	if err := f.sources.Unload(t.Context(), "m", false); err != nil || e.used["m"] {
		t.Errorf("%v; used %v", err, e.used)
	}
}
