package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// manifest is the digest of a version that ref names.
func manifest(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

// aBox is a box that has versions 1, 2 ... of cat with the contents of a string's letters, of which live is live.
func aBox(name, contents string, live int64) here {
	h := here{
		member: member{name: name}, settings: admin.Settings{KeepVersions: 5},
		state:   state{Attempts: map[string]attempt{}, Contents: map[string]edgewise.Digest{}},
		rollout: func(string) (admin.Rollout, bool) { return admin.Rollout{}, false },
	}
	r := &edgewise.Record{Name: "cat", Wanted: true}
	for i, letter := range contents {
		r.Versions = append(r.Versions, &edgewise.Version{
			ID: edgewise.ModelID{Name: "cat", Version: int64(i + 1)}, Digest: edgewise.Digest(letter),
		})
		h.state.Contents[manifest(string(letter))] = edgewise.Digest(letter)
	}
	if live != 0 {
		r.Labels = []edgewise.Label{{Name: edgewise.LiveLabel, Version: live}}
	}
	h.lookup = func(model string) *edgewise.Record {
		if model != "cat" || contents == "" {
			return nil
		}
		return r
	}
	return h
}

// tried is a box that has tried the version of a digit under serial 7.
func (h here) tried(digit, outcome string, before time.Time) here {
	h.state.Attempts["cat/live"] = attempt{Serial: 7, Digest: manifest(digit), Outcome: outcome, Reason: "why", Before: before}
	return h
}

// rolling is a box with a rollout of a version.
func (h here) rolling(version int64, state string, started time.Time) here {
	h.rollout = func(string) (admin.Rollout, bool) {
		return admin.Rollout{Plan: admin.RolloutPlan{Version: version}, State: state, Percent: 5, Started: started, Reason: "error_rate"}, true
	}
	return h
}

// hears is a box that has read reports of the group canary: of each box the state of cat at a digit.
func (h here) hears(digit string, states ...string) here {
	e := evidence{}
	for i, s := range states {
		e.reports = append(e.reports, admin.FleetReport{
			Format: 1, Box: fmt.Sprint("box-", i), Fleet: "shops", Serial: 7, Digest: "sha256:d",
			Wishes: []admin.Wish{{Model: "cat", Label: "live", Reference: ref(digit), State: s, Reason: "why"}},
		})
	}
	h.reports = map[string]evidence{"canary": e}
	return h
}

func TestPlan(t *testing.T) {
	then := time.Unix(1000, 0)
	simple := text(7, entry("2", ""))
	withPlan := text(7, entry("2", `, "rollout": {}`))
	staged := text(7, twoGroups+`, "report": {"url": "/r"}`+entry("2", `, "stages": [{"group": "canary"}, {"group": "all", "done": 2}]`))
	const done, next, waiting, back, changed, rolling = admin.WishDone, admin.WishNext, admin.WishWaiting, admin.WishTakenBack,
		admin.WishChanged, admin.WishRolling
	tests := []struct {
		name, document string
		box            here
		want           string // state and action; empty: there is no wish
		reason         string
	}{
		{"a model that is not there", simple, aBox("b", "", 0), next + " import", ""},
		{"a version that is not there", simple, aBox("b", "1", 1), next + " import", ""},
		{"a version that is there", simple, aBox("b", "12", 1), next + " label", ""},
		{"a version that is live", simple, aBox("b", "12", 2), done, ""},
		{"the first version, with a plan", withPlan, aBox("b", "2", 0), next + " label", ""},
		{"a version with a plan", withPlan, aBox("b", "12", 1), next + " rollout", ""},
		{"its rollout runs", withPlan, aBox("b", "12", 1).rolling(2, admin.RolloutRunning, then), rolling, "running"},
		{"it is live and watched", withPlan, aBox("b", "12", 2).rolling(2, admin.RolloutWatching, then), rolling, "watching"},
		{"its rollout is over", withPlan, aBox("b", "12", 2).rolling(2, admin.RolloutDone, then), done, ""},
		{
			"it was taken back", withPlan, aBox("b", "12", 1).tried("2", "", time.Time{}).rolling(2, admin.RolloutBack, then), back,
			"rolled_back: error_rate",
		},
		{
			"it was taken back before this serial", withPlan, aBox("b", "12", 1).rolling(2, admin.RolloutBack, then),
			next + " rollout", "",
		},
		{
			"killed before the second rollout began", withPlan, aBox("b", "12", 1).tried("2", "", then).rolling(2, admin.RolloutBack, then),
			next + " rollout", "",
		},
		{
			"its rollout ended well, and the label was moved", withPlan,
			aBox("b", "12", 1).tried("2", done, time.Time{}).rolling(2, admin.RolloutDone, then), changed, "moved on the box",
		},
		{"it fails its goldens", simple, aBox("b", "12", 1).tried("2", back, time.Time{}), back, "why"},
		{"another version has failed", simple, aBox("b", "123", 1).tried("3", back, time.Time{}), next + " label", ""},
		{"somebody has moved it since", simple, aBox("b", "12", 1).tried("2", done, time.Time{}), changed, "moved on the box"},
		{"killed before the label moved", simple, aBox("b", "12", 1).tried("2", "", time.Time{}), next + " label", ""},
		{"not in a group", text(7, twoGroups+entry("2", `, "stages": [{"group": "canary"}]`)), aBox("b", "1", 1), "", ""},
		{"the first stage", staged, aBox("a", "1", 1), next + " import", ""},
		{"nobody has reported", staged, aBox("b", "1", 1), waiting, "0 of 2 boxes of group canary"},
		{"too few have reported", staged, aBox("b", "1", 1).hears("2", done, next, rolling), waiting, "1 of 2"},
		{"enough have reported", staged, aBox("b", "1", 1).hears("2", done, done, next), next + " import", ""},
		{"reports of another version", staged, aBox("b", "1", 1).hears("3", done, done), waiting, "0 of 2"},
		{
			"one has taken it back", staged, aBox("b", "1", 1).hears("2", done, done, back), waiting,
			`box "box-2" of group canary has it taken_back`,
		},
		{"one was moved by hand", staged, aBox("b", "12", 1).hears("2", done, done, changed), waiting, "box-2"},
		{"it is live before its stage opens", staged, aBox("b", "12", 2), done, ""},
		{"settings that differ", text(7, `, "settings": {"keep_versions": 3}`), aBox("b", "", 0), next + " settings", ""},
		{"settings that do not", text(7, `, "settings": {"keep_versions": 5}`), aBox("b", "", 0), done, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Decode([]byte(tt.document))
			if err != nil {
				t.Fatal(err)
			}
			got, reason := "", ""
			for _, w := range plan(d, "sha256:d", tt.box) {
				got, reason = strings.TrimSpace(w.State+" "+w.Next), w.Reason
			}
			if got != tt.want || !strings.Contains(reason, tt.reason) || tt.reason == "" && reason != "" {
				t.Errorf("%q (%s), want %q (%s)", got, reason, tt.want, tt.reason)
			}
		})
	}
}

func TestReportsOfAnotherDocumentOpenNothing(t *testing.T) {
	d, err := Decode([]byte(text(7, twoGroups+`, "report": {"url": "/r"}`+
		entry("2", `, "stages": [{"group": "canary"}, {"group": "all"}]`))))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*admin.FleetReport){
		"serial": func(r *admin.FleetReport) { r.Serial = 6 },
		"digest": func(r *admin.FleetReport) { r.Digest = "sha256:e" },
		"fleet":  func(r *admin.FleetReport) { r.Fleet = "labs" },
	} {
		box := aBox("b", "1", 1).hears("2", admin.WishDone)
		change(&box.reports["canary"].reports[0])
		if got := plan(d, "sha256:d", box); got[0].State != admin.WishWaiting {
			t.Errorf("with another %s it is %s", name, got[0].State)
		}
	}
}

func TestAPercentageIsAboutThatShareOfBoxesAndTheSameOnesWhenItGrows(t *testing.T) {
	five, twenty := 5.0, 20.0
	small, large := Group{Percent: &five}, Group{Percent: &twenty}
	inSmall, inLarge := 0, 0
	for i := range 10_000 {
		m := member{name: fmt.Sprint("box-", i)}
		if small.has("shops", m) {
			inSmall++
			if !large.has("shops", m) {
				t.Fatalf("%s leaves the group when it grows", m.name)
			}
		}
		if large.has("shops", m) {
			inLarge++
		}
	}
	if inSmall < 400 || inSmall > 600 || inLarge < 1800 || inLarge > 2200 {
		t.Errorf("%d of 10000 boxes are in 5 %%, %d in 20 %%", inSmall, inLarge)
	}
}

func TestGroupsChooseByNameAndLabels(t *testing.T) {
	d, err := Decode([]byte(text(1, `, "groups": {"named": {"boxes": ["a"]}, "berlin": {"labels": {"site": "berlin"}},
		"none": {}, "all": {"percent": 100}, "both": {"labels": {"site": "berlin", "arch": "arm"}}}`)))
	if err != nil {
		t.Fatal(err)
	}
	for want, m := range map[string]member{
		"all named": {name: "a"}, "all berlin": {name: "b", labels: map[string]string{"site": "berlin"}}, "all": {name: "c"},
		"all berlin both": {name: "d", labels: map[string]string{"site": "berlin", "arch": "arm"}},
	} {
		if got := strings.Join(d.groupsOf(m), " "); got != want {
			t.Errorf("box %s is in %q, want %q", m.name, got, want)
		}
	}
}
