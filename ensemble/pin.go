package ensemble

import (
	"fmt"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Pin returns m with the exact version and digest of everything its steps run, and those versions, one for each step.
// It is decoupled if one of them is.
// record returns what is stored about a model, nil when there is nothing. A step with model_version -1 is pinned to its
// model's live version. A step that comes pinned keeps its version, and is refused when that is not stored with the
// same digest. m is complete, and is not changed. The error reports everything that is wrong with m, also what Validate
// finds, one problem a line. Its kind is the one of all problems, and Invalid when they differ: NotFound (a model or
// version is not stored), Conflict (a model without a live version, or another digest), Invalid (an ensemble that
// contains itself, more than MaxNesting inside each other, and what Validate finds).
func Pin(m *edgewise.Model, record func(name string) *edgewise.Record) (*edgewise.Model, []*edgewise.Version, error) {
	c := &checker{m: m}
	graphed := c.declaration()
	if c.unnamed == nil {
		return nil, nil, c.err()
	}
	p := &pinner{name: m.Name, record: record, depths: map[edgewise.ModelID]int{}}
	pinned, scheduling := *m, *m.EnsembleScheduling
	scheduling.Step = slices.Clone(scheduling.Step)
	pinned.EnsembleScheduling = &scheduling
	parts := make([]*edgewise.Version, len(scheduling.Step))
	known := make([]*edgewise.Model, len(parts))
	for i := range scheduling.Step {
		if c.unnamed[i] {
			continue
		}
		s := &scheduling.Step[i]
		v, err := p.resolve(i, s)
		if err == nil {
			_, err = p.depth(v, []string{p.name})
		}
		if err != nil {
			c.add(edgewise.KindOf(err), err.Error())
			continue
		}
		parts[i], known[i] = v, v.Model
		s.Pinned = &edgewise.EnsemblePin{Version: v.ID.Version, Digest: v.Digest}
	}
	if graphed {
		c.connected(known)
	}
	if err := c.err(); err != nil {
		return nil, nil, err
	}
	pinned.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: c.decoupled()}
	return &pinned, parts, nil
}

// Known returns the models that the steps of m would be pinned to, one for each step, nil where there is none.
func Known(m *edgewise.Model, record func(name string) *edgewise.Record) []*edgewise.Model {
	p := &pinner{name: m.Name, record: record}
	known := make([]*edgewise.Model, len(m.EnsembleScheduling.Step))
	for i := range known {
		if v, err := p.resolve(i, &m.EnsembleScheduling.Step[i]); err == nil {
			known[i] = v.Model
		}
	}
	return known
}

// Parts returns the versions that a pinned ensemble runs, one for each step. Errors: Conflict when one is not stored or
// stored with another digest; all of them are reported, one a line.
func Parts(m *edgewise.Model, record func(name string) *edgewise.Record) ([]*edgewise.Version, error) {
	c := &checker{m: m}
	p := &pinner{name: m.Name, record: record}
	parts := make([]*edgewise.Version, len(m.EnsembleScheduling.Step))
	for i := range m.EnsembleScheduling.Step {
		s := &m.EnsembleScheduling.Step[i]
		if s.Pinned == nil {
			c.add(edgewise.Conflict, fmt.Sprintf("step %d (model '%s') was never pinned: push the ensemble again", i, s.ModelName))
			continue
		}
		v, err := p.resolve(i, s)
		if err != nil {
			c.add(edgewise.Conflict, err.Error())
		}
		parts[i] = v
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	return parts, nil
}

type pinner struct {
	name   string
	record func(name string) *edgewise.Record
	depths map[edgewise.ModelID]int // of the versions looked at so far
}

// resolve returns the version that a step is to run.
func (p *pinner) resolve(i int, s *edgewise.EnsembleStep) (*edgewise.Version, error) {
	r := p.record(s.ModelName)
	if r == nil {
		return nil, p.fail(edgewise.NotFound, "step %d: there is no model '%s' on this box", i, s.ModelName)
	}
	number := s.ModelVersion
	if s.Pinned != nil && s.Pinned.Version != 0 {
		if number > 0 && number != s.Pinned.Version {
			return nil, p.fail(edgewise.Invalid, "step %d (model '%s'): model_version is %d, pinned is %d", i, s.ModelName, number, s.Pinned.Version)
		}
		number = s.Pinned.Version
	}
	if number == -1 {
		if number = r.Label(edgewise.LiveLabel); number == 0 {
			return nil, p.fail(edgewise.Conflict,
				"step %d: model '%s' has no live version: promote one, or name a version in model_version", i, s.ModelName)
		}
	}
	v := r.Version(number)
	if v == nil {
		return nil, p.fail(edgewise.NotFound, "step %d: model '%s' has no version %d", i, s.ModelName, number)
	}
	if s.Pinned != nil && s.Pinned.Digest != "" && s.Pinned.Digest != v.Digest {
		return nil, p.fail(edgewise.Conflict, "step %d: model '%s' version %d has the digest %.12s, pinned is %.12s", i,
			s.ModelName, number, v.Digest, s.Pinned.Digest)
	}
	return v, nil
}

// depth returns how many ensembles are inside each other in v, 0 when it is none. path leads to v.
func (p *pinner) depth(v *edgewise.Version, path []string) (deepest int, err error) {
	if known, seen := p.depths[v.ID]; seen && len(path)+known <= MaxNesting {
		return known, nil
	}
	path = append(slices.Clone(path), v.ID.Name)
	if v.ID.Name == p.name {
		return 0, p.fail(edgewise.Invalid, "it contains itself: %s", strings.Join(path, " -> "))
	}
	pins := v.Model.Pins()
	if len(pins) > 0 && len(path) > MaxNesting {
		return 0, p.fail(edgewise.Invalid, "more than %d ensembles are inside each other: %s", MaxNesting, strings.Join(path, " -> "))
	}
	for _, id := range pins {
		r := p.record(id.Name)
		if r == nil || r.Version(id.Version) == nil {
			return 0, p.fail(edgewise.Conflict, "ensemble '%s' version %d runs model '%s' version %d, which is not stored",
				v.ID.Name, v.ID.Version, id.Name, id.Version)
		}
		d, err := p.depth(r.Version(id.Version), path)
		if err != nil {
			return 0, err
		}
		deepest = max(deepest, d+1)
	}
	p.depths[v.ID] = deepest
	return deepest, nil
}

func (p *pinner) fail(kind edgewise.Kind, format string, args ...any) error {
	return edgewise.Errorf("ensemble.Pin", kind, format, args...)
}
