package tune

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// publishing is a store of models that takes versions.
type publishing struct {
	stored
	declared string
	fail     map[string]error // of what is stored, by model
	staged   bool
	texts    map[string]string // that were stored, by model
	live     []string          // models whose version went live
	deleted  []edgewise.ModelID
}

func (p *publishing) Declared(edgewise.ModelID) ([]byte, string, error) {
	return []byte(p.declared), "", nil
}

func (p *publishing) Push(_ context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error) {
	if err := p.fail[up.Model]; err != nil && !promote {
		return nil, err
	}
	_, _, content, err := up.Next()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return nil, err
	}
	p.texts[up.Model] = string(text)
	made := &admin.Pushed{Version: &edgewise.Version{ID: edgewise.ModelID{Name: up.Model, Version: up.Base + 1}}, Staged: p.staged}
	if promote {
		p.live = append(p.live, up.Model)
		return made, p.fail[up.Model]
	}
	return made, nil
}

func (p *publishing) DeleteVersion(_ context.Context, id edgewise.ModelID) error {
	p.deleted = append(p.deleted, id)
	return nil
}

// full is a store of documents without room.
type full struct{}

func (full) View(func(edgewise.DocumentsTx) error) error { return nil }

func (full) Update(func(edgewise.DocumentsTx) error) error {
	return edgewise.Errorf("fake", edgewise.Exhausted, "the disk is full")
}

// kept is one that takes everything.
type kept struct{ full }

func (kept) Update(func(edgewise.DocumentsTx) error) error { return nil }

const ofTwo = `platform: "ensemble"
ensemble_scheduling {
  step { model_name: "m1" model_version: -1 input_map { key: "x" value: "x" } output_map { key: "y" value: "t" } }
  step { model_name: "m2" model_version: -1 input_map { key: "x" value: "t" } output_map { key: "y" value: "y" } }
}
`

// tunedEnsemble is an ensemble of m1 and m2, and changes of both.
func tunedEnsemble(t *testing.T) (*Tuner, *publishing, *job, []change) {
	t.Helper()
	u := tuner(t)
	p := &publishing{stored: u.config.Models.(stored), declared: ofTwo, texts: map[string]string{}, fail: map[string]error{}}
	u.config.Models, u.config.Documents, u.config.Logger = p, kept{}, slog.New(slog.DiscardHandler)
	m := complete(t, ofTwo)
	for i := range m.EnsembleScheduling.Step {
		m.EnsembleScheduling.Step[i].Pinned = &edgewise.EnsemblePin{Version: 1}
	}
	e := p.records["m0"].Versions[0]
	e.Model = m
	changes := []change{
		{p.records["m1"].Versions[0], []byte("# first"), []string{"2 instances"}},
		{p.records["m2"].Versions[0], []byte("# second"), nil},
	}
	return u, p, &job{version: e}, changes
}

func TestTheChangedModelsOfAnEnsembleAreStoredAndTheEnsembleAloneGoesLive(t *testing.T) {
	u, p, j, changes := tunedEnsemble(t)
	r := &admin.TuneReport{}
	if err := u.apply(t.Context(), j, r, changes[:1]); err != nil || !r.Live || r.Version != 2 || len(r.Parts) != 1 ||
		r.Parts[0].Model != "m1" || r.Parts[0].Version != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if !slices.Equal(p.live, []string{"m0"}) || p.texts["m1"] != "# first" || len(p.texts) != 2 || len(p.deleted) != 0 {
		t.Errorf("live %v, stored %v, deleted %v", p.live, p.texts, p.deleted)
	}
	steps := complete(t, p.texts["m0"]).EnsembleScheduling.Step
	if steps[0].ModelVersion != 2 || steps[1].ModelVersion != 1 {
		t.Errorf("%s", p.texts["m0"])
	}
}

func TestWhatWasStoredForAnEnsembleThatIsNotIsDeleted(t *testing.T) {
	for _, failing := range []string{"m2", "m0"} {
		u, p, j, changes := tunedEnsemble(t)
		j.store = true
		p.fail[failing] = errors.New("the disk is full")
		r := &admin.TuneReport{}
		err := u.apply(t.Context(), j, r, changes)
		if err == nil || !strings.Contains(err.Error(), "the disk is full") || len(r.Parts) != 0 || r.Version != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		want := []edgewise.ModelID{{Name: "m2", Version: 2}, {Name: "m1", Version: 2}}
		if failing == "m2" {
			want = want[1:]
		}
		if !slices.Equal(p.deleted, want) || len(p.live) != 0 {
			t.Errorf("%s fails: deleted %v, live %v", failing, p.deleted, p.live)
		}
	}
}

func TestWhatHappensMeanwhileIsInTheReport(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Tuner, *publishing)
		live   bool
		want   string
	}{
		{"nothing", func(*Tuner, *publishing) {}, true, "version 2 is live: 1.50 times as good as version 1"},
		{"a rollout", func(_ *Tuner, p *publishing) { p.staged = true }, false, "stored and not live: it goes live by the stages"},
		{"another version went live", func(_ *Tuner, p *publishing) {
			p.records["m3"].Labels[0].Version = 7
		}, false, "not live: version 7 went live meanwhile"},
		{"goldens contradict it", func(_ *Tuner, p *publishing) {
			p.fail["m3"] = errors.New("golden 1: output y differs")
		}, false, "not live: golden 1: output y differs"},
		{"the disk is full", func(u *Tuner, _ *publishing) { u.config.Documents = full{} }, true, "its report was not kept: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, p, _, _ := tunedEnsemble(t)
			test.change(u, p)
			v := p.records["m3"].Versions[0]
			r := &admin.TuneReport{Base: 1, Gain: 1.5}
			err := u.apply(t.Context(), &job{version: v}, r, []change{{of: v, text: []byte("# other")}})
			if err != nil || r.Live != test.live || !strings.Contains(r.Conclusion(), test.want) {
				t.Errorf("%q, live %v, %v", r.Conclusion(), r.Live, err)
			}
		})
	}
	u, p, _, _ := tunedEnsemble(t)
	v := p.records["m3"].Versions[0]
	delete(p.records, "m3") // deleted, or renamed
	err := u.apply(t.Context(), &job{version: v}, &admin.TuneReport{}, []change{{of: v}})
	if edgewise.KindOf(err) != edgewise.NotFound || len(p.texts) != 0 {
		t.Errorf("%v, stored %v", err, p.texts)
	}
}
