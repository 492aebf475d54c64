package tune

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// part is a model whose configuration is searched: the one that is tuned, or one that a step of an ensemble runs.
type part struct {
	version  *edgewise.Version
	declared []byte // its configuration, as config.pbtxt
	space    *space // nil: nothing of it can be set
	from     int    // its axes among those of the plan
}

// plan is what is set of which models.
type plan struct {
	parts    []*part // of an ensemble the slowest first
	ensemble bool
	axes     []search.Axis
}

// arrange lists the axes of the parts in their order.
func (p *plan) arrange() {
	p.axes = nil
	for _, one := range p.parts {
		one.from = len(p.axes)
		if one.space == nil {
			continue
		}
		for _, a := range one.space.axes {
			if p.ensemble {
				a.Name = one.version.ID.Name + ": " + a.Name
			}
			p.axes = append(p.axes, a)
		}
	}
}

// of is what a candidate says of one part.
func (one *part) of(c search.Candidate) search.Candidate {
	if one.space == nil || len(c) == 0 { // the plan has no axes yet
		return ""
	}
	return c[one.from : one.from+len(one.space.axes)]
}

// configuration is the config.pbtxt of a part.
func (one *part) configuration(c search.Candidate) (text []byte, changed bool, err error) {
	own := one.of(c)
	if own.Changes() == 0 {
		return one.declared, false, nil
	}
	text, err = one.space.configuration(own)
	return text, true, err
}

// settings says in words what a candidate changes of a part.
func (one *part) settings(c search.Candidate) []string {
	if own := one.of(c); own != "" {
		return one.space.names(own)
	}
	return nil
}

// names says in words what a candidate changes.
func (p *plan) names(c search.Candidate) (list []string) {
	for _, one := range p.parts {
		for _, name := range one.settings(c) {
			if p.ensemble {
				name = one.version.ID.Name + ": " + name
			}
			list = append(list, name)
		}
	}
	return list
}

// repinned is the configuration of an ensemble whose steps run the versions that pins names, and otherwise those that base
// runs.
func repinned(text []byte, base *edgewise.Model, pins map[edgewise.ModelID]int64) ([]byte, error) {
	declared, err := modelconfig.Parse(modelconfig.Pbtxt, text)
	if err != nil {
		return nil, err
	}
	scheduling := *declared.EnsembleScheduling
	scheduling.Step = slices.Clone(scheduling.Step)
	for i := range scheduling.Step {
		now := base.EnsembleScheduling.Step[i]
		id := edgewise.ModelID{Name: now.ModelName, Version: now.Pinned.Version}
		version, ok := pins[id]
		if !ok {
			version = id.Version
		}
		scheduling.Step[i].ModelVersion, scheduling.Step[i].Pinned = version, nil
	}
	changes, err := json.Marshal(map[string]any{"ensemble_scheduling": object(scheduling)})
	if err != nil {
		return nil, edgewise.Errorf("tune.repinned", edgewise.Internal, "%w", err)
	}
	return modelconfig.Edit(text, changes)
}

// Setting is a configuration and what it changes, in words.
type Setting struct {
	Name string
	Text []byte // as config.pbtxt
}

// The axes of a Grid.
const (
	Cores    = "cores"
	Batching = "batching"
)

// Grid lists every combination of what a tuning of a model searches on some axes one after the other, that of text first. The
// model is what text comes to, and its rows do not depend on each other. Errors: Unsupported where nothing can be set.
func Grid(text []byte, m *edgewise.Model, f edgewise.Format, cores int, axes ...string) (list []Setting, err error) {
	s, err := newSpace(text, subject{model: m, format: f, cores: cores, independent: true, step: true})
	if err != nil {
		return nil, err
	}
	all := []search.Candidate{search.Candidate(make([]byte, len(s.axes)))}
	for i, axis := range s.axes {
		if !slices.Contains(axes, axis.Name) {
			continue
		}
		for _, c := range slices.Clone(all) {
			for v := range axis.Values[1:] {
				other := []byte(c)
				other[i] = byte(v + 1)
				all = append(all, search.Candidate(other))
			}
		}
	}
	for _, c := range all {
		changed, err := s.configuration(c)
		if err != nil {
			return nil, err
		}
		list = append(list, Setting{strings.Join(s.names(c), ", "), changed})
	}
	return list, nil
}
