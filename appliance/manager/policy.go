package manager

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// Aspired returns which versions of a model ought to be ready, ascending, and which of them answers requests that name
// no version (0: the highest that is ready). It is a pure function of what is stored: the versions that the live
// version's own policy picks, and every version with a label. "latest n" counts downwards from the live version, so
// that a rollback serves what it says.
func Aspired(r *edgewise.Record) (versions []int64, live int64) {
	if r == nil || !r.Wanted {
		return nil, 0
	}
	picked := map[int64]bool{}
	for _, l := range r.Labels {
		picked[l.Version] = true
	}
	live = r.Label(edgewise.LiveLabel)
	if v := r.Version(live); v != nil {
		for _, number := range pickedBy(v.Model.VersionPolicy, r.Versions, live) {
			picked[number] = true
		}
	}
	for _, v := range r.Versions {
		if picked[v.ID.Version] {
			versions = append(versions, v.ID.Version)
		}
	}
	return versions, live
}

func pickedBy(p *edgewise.VersionPolicy, stored []*edgewise.Version, live int64) []int64 {
	var numbers []int64
	for _, v := range stored {
		numbers = append(numbers, v.ID.Version)
	}
	switch {
	case p != nil && p.All != nil:
		return numbers
	case p != nil && p.Specific != nil:
		return p.Specific.Versions
	}
	n := uint32(1)
	if p != nil && p.Latest != nil {
		n = max(p.Latest.NumVersions, 1)
	}
	upTo, _ := slices.BinarySearch(numbers, live+1)
	return numbers[max(0, upTo-int(n)):upTo]
}

// snapshot is all that the next actions for one model depend on: no clock, no lock.
type snapshot struct {
	stored  []int64 // versions that exist, ascending
	aspired []int64 // versions that ought to be ready, ascending
	trial   []int64 // versions to be loaded beside them, which answer only requests that name them
	// versions that loaded ensembles need, ascending; they answer only requests that name them
	held    []int64
	live    int64                    // the aspired version that ought to answer version 0; 0: the highest ready
	alone   int64                    // the version of the trial that the live one has to go for; 0: none
	serving int64                    // the version that answers version 0 now; 0: none
	leaving []int64                  // versions that answer until the live one is ready
	states  map[int64]edgewise.State // of every version that has one
}

// plan is what is to be done next for one model.
type plan struct {
	serving int64   // the version that answers version 0 from now on; 0: none
	load    []int64 // to be loaded, in this order
	unload  []int64 // to be drained and unloaded
	forget  []int64 // failed ones that nobody wants any more
}

// next decides. Its one principle: what answers now goes on answering until its successor is ready. So a version that
// is no longer aspired is kept while the live one is loading, and also when that failed. The exception is a version
// for which the live one has to go first.
func next(s snapshot) plan {
	p := plan{serving: s.nextServing()}
	for _, v := range s.wanted() {
		if _, known := s.states[v]; !known && slices.Contains(s.stored, v) {
			p.load = append(p.load, v)
		}
	}
	for _, v := range s.ordered() {
		if slices.Contains(s.wanted(), v) {
			continue
		}
		switch s.states[v] {
		case edgewise.StateReady:
			if v != p.serving && !s.stays(v) {
				p.unload = append(p.unload, v)
			}
		case edgewise.StateUnavailable:
			p.forget = append(p.forget, v)
		}
	}
	return p
}

// stays tells whether a version that is leaving goes on answering requests that name it.
func (s snapshot) stays(v int64) bool {
	return slices.Contains(s.leaving, v) && slices.Contains(s.aspired, s.live) && !s.ready(s.live)
}

func (s snapshot) ready(v int64) bool {
	state, known := s.states[v]
	return known && state == edgewise.StateReady
}

func (s snapshot) nextServing() int64 {
	highest := int64(0)
	for _, v := range s.aspired {
		if s.ready(v) {
			highest = v
		}
	}
	switch {
	case len(s.aspired) == 0:
		return 0
	case s.alone != 0: // it answers once it is live: until then it may be refused, and the old one comes back
		return 0
	case s.ready(s.live):
		return s.live
	case s.live == 0 && highest != 0:
		return highest
	case s.ready(s.serving) && (slices.Contains(s.stored, s.serving) || slices.Contains(s.leaving, s.serving)):
		return s.serving
	}
	return highest
}

// wanted is every version that is to be loaded and kept, ascending.
func (s snapshot) wanted() []int64 {
	all := slices.Concat(s.aspired, s.trial)
	if s.alone != 0 {
		all = slices.DeleteFunc(all, func(v int64) bool { return v == s.live })
	}
	all = slices.Concat(all, s.held)
	slices.Sort(all)
	return slices.Compact(all)
}

// ordered is every version that has a state, ascending.
func (s snapshot) ordered() []int64 {
	var versions []int64
	for v := range s.states {
		versions = append(versions, v)
	}
	slices.Sort(versions)
	return versions
}
