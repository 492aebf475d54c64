package fleet

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/observe"
)

// here describes the box as it is now. f.mu is held.
func (f *Fleet) here() here {
	return here{
		member: f.member(), lookup: f.config.Models.Lookup, settings: f.config.Box.Settings(), reports: f.reports,
		state: state{maps.Clone(f.state.Attempts), maps.Clone(f.state.Contents)},
		rollout: func(model string) (admin.Rollout, bool) {
			r, err := f.config.Rollouts.Get(model)
			return r, err == nil
		},
	}
}

// Status is what the box was told, what it did and what failed.
func (f *Fleet) Status() admin.Fleet {
	m := f.member()
	s := admin.Fleet{
		Source: f.config.Fleet.Source, Box: m.name, Labels: m.labels, State: admin.FleetOff, Groups: []string{}, Wishes: []admin.Wish{},
	}
	if s.Source == "" {
		return s
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.State, s.Asked, s.Problem, s.Reported, s.ReportProblem = admin.FleetNone, f.asked, f.problem, f.reported, f.unsent
	a := f.current
	if a == nil {
		return s
	}
	now := f.config.Now()
	s.Fleet, s.Serial, s.Digest, s.SignedBy, s.Accepted = a.document.Fleet, a.document.Serial, a.Digest, a.SignedBy, a.Time
	s.Groups, s.Wishes, s.Warning = a.document.groupsOf(m), f.wishes(a), a.clockWarning(now)
	if s.State = progress(s.Wishes); !f.trusted {
		s.State = admin.FleetHeld
	}
	if state, reason := a.standing(now); state != "" {
		s.State, s.Warning = state, strings.TrimPrefix(s.Warning+"; "+reason, "; ")
	}
	return s
}

// wishes is the plan with what has failed. f.mu is held.
func (f *Fleet) wishes(a *accepted) []admin.Wish {
	list := plan(a.document, a.Digest, f.here())
	now := time.Now()
	for i := range list {
		w := &list[i]
		if failed := f.failures[wishKey(*w)]; w.State == admin.WishNext && now.Before(failed.until) {
			w.State, w.Reason = admin.WishFailed, failed.reason
		}
	}
	return list
}

// wishKey is Entry.key of a wish, "" of settings.
func wishKey(w admin.Wish) string {
	if w.Model == "" {
		return ""
	}
	return w.Model + "/" + w.Label
}

// Diff says what a document would want of the box, as if it were signed. It asks nobody: of reports it knows what the box has read for
// the document that it follows. Errors: Invalid, TooLarge.
func (f *Fleet) Diff(text string) (admin.FleetDifference, error) {
	d, err := Decode([]byte(text))
	if err == nil {
		err = f.checkPlans(d)
	}
	if err != nil {
		return admin.FleetDifference{}, err
	}
	m := f.member()
	f.mu.Lock()
	h := f.here()
	f.mu.Unlock()
	out := admin.FleetDifference{Fleet: d.Fleet, Serial: d.Serial, Groups: d.groupsOf(m)}
	out.Wishes = plan(d, digestOf([]byte(text)), h)
	return out, nil
}

// Metrics are those of a box that has a source, nil of others.
func (f *Fleet) Metrics() *observe.Fleet {
	s := f.Status()
	if s.State == admin.FleetOff {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &observe.Fleet{Serial: s.Serial, Converged: s.State == admin.FleetConverged, Failures: f.failed}
}

// entryOf finds the entry of a wish.
func (d *Document) entryOf(w admin.Wish) *Entry {
	i := slices.IndexFunc(d.Models, func(e Entry) bool { return e.Model == w.Model && e.Label == w.Label })
	if i < 0 {
		return nil
	}
	return &d.Models[i]
}
