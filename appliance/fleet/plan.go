package fleet

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// member is a box as groups see it.
type member struct {
	name   string
	labels map[string]string
}

// has tells whether a box is in a group of a fleet.
func (g Group) has(fleet string, m member) bool {
	if slices.Contains(g.Boxes, m.name) {
		return true
	}
	for name, value := range g.Labels {
		if m.labels[name] != value {
			return false
		}
	}
	return place(fleet, m.name) < *g.Percent
}

// place spreads boxes evenly from 0 to below 100, each at the same place for as long as the fleet has its name.
func place(fleet, box string) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(fleet + "\x00" + box))
	return float64(h.Sum64()%1_000_000) / 10_000
}

// groupsOf lists the groups that a box is in.
func (d *Document) groupsOf(m member) []string {
	list := []string{}
	for _, name := range slices.Sorted(maps.Keys(d.Groups)) {
		if d.Groups[name].has(d.Fleet, m) {
			list = append(list, name)
		}
	}
	return list
}

// stage returns the first stage of an entry that a box is in; false: the entry is not for it.
func (d *Document) stage(e Entry, m member) (int, bool) {
	if len(e.Stages) == 0 {
		return 0, true
	}
	i := slices.IndexFunc(e.Stages, func(s Stage) bool { return d.Groups[s.Group].has(d.Fleet, m) })
	return i, i >= 0
}

// attempt is what became of an entry under one serial. It is stored before the box acts.
type attempt struct {
	Serial  int64     `json:"serial"`
	Digest  string    `json:"digest"`           // of the version's manifest
	Outcome string    `json:"outcome"`          // WishDone or WishTakenBack; empty: open
	Reason  string    `json:"reason,omitempty"` // why it was taken back
	Before  time.Time `json:"before,omitzero"`  // when the rollout before it has begun
}

// state is what a box remembers of what it did.
type state struct {
	Attempts map[string]attempt `json:"attempts"` // by Entry.key
	// Contents are the digests of versions, by those of the manifests that they came with.
	Contents map[string]edgewise.Digest `json:"contents"`
}

// here is a box at one moment, as far as a document is about it.
type here struct {
	member   member
	lookup   func(model string) *edgewise.Record           // nil for a model that is not there
	rollout  func(model string) (r admin.Rollout, ok bool) // the present or the latest one of a model
	settings admin.Settings
	state    state
	reports  map[string]evidence // by group, as far as stages ask for them
}

// evidence is what boxes of a group have reported.
type evidence struct {
	reports []admin.FleetReport
	problem string // why they cannot be read
}

// Plan says what a document wants of a box, and what comes next for each of that. It changes nothing.
func plan(d *Document, digest string, h here) []admin.Wish {
	list := []admin.Wish{}
	for _, e := range d.Models {
		if stage, concerned := d.stage(e, h.member); concerned {
			list = append(list, d.wish(digest, e, stage, h))
		}
	}
	if d.Settings != nil {
		w := admin.Wish{State: admin.WishDone}
		if !d.Settings.met(h.settings) {
			w.State, w.Next = admin.WishNext, admin.FleetSettings
		}
		list = append(list, w)
	}
	return list
}

// wish is the state of one entry.
func (d *Document) wish(digest string, e Entry, stage int, h here) admin.Wish {
	w := admin.Wish{Model: e.Model, Label: e.Label, Reference: e.Reference}
	record := h.lookup(e.Model)
	version := stored(record, h.state.Contents[e.digest()])
	if version != nil {
		w.Version = version.ID.Version
	}
	tried := h.state.Attempts[e.key()]
	if tried.Serial != d.Serial || tried.Digest != e.digest() {
		tried = attempt{}
	}
	r, began := h.rollout(e.Model)
	ours := began && e.Label == edgewise.LiveLabel && version != nil && r.Plan.Version == w.Version
	switch {
	case ours && r.Active():
		w.State, w.Reason = admin.WishRolling, fmt.Sprintf("%s, %g %%", r.State, r.Percent)
	case version != nil && record.Label(e.Label) == w.Version:
		w.State = admin.WishDone
	case tried.Outcome == admin.WishTakenBack:
		w.State, w.Reason = admin.WishTakenBack, tried.Reason
	case tried.Outcome == admin.WishDone:
		w.State, w.Reason = admin.WishChanged, "the label was moved on the box since: the next serial moves it again"
	case ours && r.State != admin.RolloutDone && tried.Serial != 0 && !r.Started.Equal(tried.Before):
		w.State, w.Reason = admin.WishTakenBack, r.State+": "+r.Reason
	default:
		w.State, w.Reason = d.open(digest, e, stage, h)
		w.Next = next(e, record, version)
	}
	if w.State == admin.WishWaiting {
		w.Next = ""
	}
	return w
}

// next is the action that an entry needs.
func next(e Entry, record *edgewise.Record, version *edgewise.Version) string {
	switch {
	case version == nil:
		return admin.FleetImport
	case e.Label == edgewise.LiveLabel && e.Rollout != nil && record.Wanted && record.Label(e.Label) != 0:
		return admin.FleetRollout
	}
	return admin.FleetLabel
}

// stored finds the version with a digest, the latest of several.
func stored(record *edgewise.Record, digest edgewise.Digest) *edgewise.Version {
	if record == nil || digest == "" {
		return nil
	}
	for _, v := range slices.Backward(record.Versions) {
		if v.Digest == digest {
			return v
		}
	}
	return nil
}

// open tells whether the stage of a box is open: enough boxes of the stage before report the version done under this document,
// and no box of any stage before reports it taken back.
func (d *Document) open(digest string, e Entry, stage int, h here) (state, reason string) {
	for i := range stage {
		group := e.Stages[i].Group
		found := h.reports[group]
		if found.problem != "" {
			return admin.WishWaiting, fmt.Sprintf("the reports of group %s cannot be read: %s", group, found.problem)
		}
		done := 0
		for _, r := range found.reports {
			if r.Fleet != d.Fleet || r.Serial != d.Serial || r.Digest != digest {
				continue
			}
			for _, w := range r.Wishes {
				if w.Model != e.Model || w.Label != e.Label || w.Reference != e.Reference {
					continue
				}
				switch w.State {
				case admin.WishDone:
					done++
				case admin.WishTakenBack, admin.WishChanged:
					return admin.WishWaiting, fmt.Sprintf("box %.64q of group %s has it %s: %s", r.Box, group, w.State, brief(w.Reason))
				}
			}
		}
		if i+1 == stage && done < *e.Stages[stage].Done {
			return admin.WishWaiting, fmt.Sprintf("%d of %d boxes of group %s report it done", done, *e.Stages[stage].Done, group)
		}
	}
	return admin.WishNext, ""
}

// needed lists the groups whose reports a box needs to see whether stages are open to it.
func (d *Document) needed(m member) []string {
	found := map[string]bool{}
	for _, e := range d.Models {
		stage, _ := d.stage(e, m)
		for i := range max(stage, 0) {
			found[e.Stages[i].Group] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// read lists the groups whose reports other boxes read, of those that a box is in.
func (d *Document) read(m member) []string {
	found := map[string]bool{}
	for _, e := range d.Models {
		for i := range len(e.Stages) - 1 {
			if name := e.Stages[i].Group; d.Groups[name].has(d.Fleet, m) {
				found[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// met tells whether the settings of a box are those of a fleet.
func (s *Settings) met(of admin.Settings) bool {
	return (s.SessionIdle == nil || *s.SessionIdle == of.SessionIdle) && (s.Session == nil || *s.Session == of.Session) &&
		(s.MetricsPublic == nil || *s.MetricsPublic == of.MetricsPublic) && (s.KeepVersions == nil || *s.KeepVersions == of.KeepVersions)
}

// progress is the state of a box by its wishes.
func progress(list []admin.Wish) string {
	state := admin.FleetConverged
	for _, w := range list {
		switch w.State {
		case admin.WishDone:
		case admin.WishNext, admin.WishRolling:
			return admin.FleetMoving
		default:
			state = admin.FleetHeld
		}
	}
	return state
}

// maxReason bounds reasons in reports, in bytes.
const maxReason = 300

// brief bounds a text of people's or of another box's, and cuts no character.
func brief(text string) string {
	const more = "..."
	if len(text) <= maxReason {
		return text
	}
	cut := maxReason - len(more)
	for !utf8.RuneStart(text[cut]) && cut > 0 {
		cut--
	}
	return text[:cut] + more
}

// tagOf is the tag of a box's reports in a registry: a number, as versions have, so that the tags of a repository are its boxes.
func tagOf(box string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(box))
	return strconv.FormatUint(h.Sum64()>>1|1, 10)
}

// fileOf is the file of a box's reports.
func fileOf(box string) string {
	clean := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (edgewise.CheckUser("x"+string(r)) == nil) {
			return r
		}
		return '_'
	}, box)
	if clean != box { // another box may have that name
		clean += "-" + tagOf(box)
	}
	return "box-" + clean + ".json"
}
