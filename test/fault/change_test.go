package fault

import (
	"cmp"
	"maps"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/store"
)

// change is one change of a store. The child says it before it begins and acknowledges it after the call returned.
type change struct {
	Do      string                     `json:"do"` // one of the verbs in state.apply
	Model   string                     `json:"model"`
	Version int64                      `json:"version,omitempty"`
	Label   string                     `json:"label,omitempty"`
	Wanted  bool                       `json:"wanted,omitempty"`
	Files   map[string]edgewise.Digest `json:"files,omitempty"`
}

// state is what a store must hold, told from changes alone.
type state struct {
	models  map[string]*modelState
	highest map[string]int64 // numbers stay used when a model goes
}

type modelState struct {
	Versions map[int64]map[string]edgewise.Digest // files by path
	Labels   map[string]labelState
	Wanted   bool
}

type labelState struct {
	Version int64
	History []int64
}

func newState() *state {
	return &state{models: make(map[string]*modelState), highest: make(map[string]int64)}
}

func stateOf(records []*edgewise.Record) *state {
	s := newState()
	for _, r := range records {
		m := s.model(r.Name)
		m.Wanted = r.Wanted
		for _, l := range r.Labels {
			m.Labels[l.Name] = labelState{l.Version, l.History}
		}
		for _, v := range r.Versions {
			files := make(map[string]edgewise.Digest)
			for _, f := range v.Files {
				files[f.Path] = f.Digest
			}
			m.Versions[v.ID.Version] = files
		}
	}
	return s
}

func (s *state) model(name string) *modelState {
	m := s.models[name]
	if m == nil {
		m = &modelState{Versions: make(map[int64]map[string]edgewise.Digest), Labels: make(map[string]labelState)}
		s.models[name] = m
	}
	return m
}

// apply does what the store promises for a change that succeeds.
func (s *state) apply(c *change) {
	m := s.model(c.Model)
	switch c.Do {
	case "upload":
		s.highest[c.Model]++
		m.Versions[s.highest[c.Model]] = c.Files
	case "promote":
		m.Wanted = true
		old, there := m.Labels[c.Label]
		if there && old.Version == c.Version {
			break
		}
		next := labelState{Version: c.Version}
		if there {
			next.History = append(slices.Clone(old.History), old.Version)
			next.History = next.History[max(0, len(next.History)-store.MaxLabelHistory):]
		}
		m.Labels[c.Label] = next
	case "rollback":
		m.Labels[c.Label], _ = m.back(m.Labels[c.Label])
		m.Wanted = true
	case "unlabel":
		delete(m.Labels, c.Label)
	case "want":
		m.Wanted = c.Wanted
	case "delete":
		delete(m.Versions, c.Version)
	case "delete model":
		clear(m.Versions)
	}
	if len(m.Versions) == 0 {
		delete(s.models, c.Model)
	}
}

// back is where a label goes when it rolls back.
func (m *modelState) back(l labelState) (labelState, bool) {
	for i := len(l.History) - 1; i >= 0; i-- {
		n := l.History[i]
		if m.Versions[n] == nil || n == l.Version {
			continue
		}
		if i == 0 {
			return labelState{Version: n}, true
		}
		return labelState{n, slices.Clone(l.History[:i])}, true
	}
	return l, false
}

// free returns the versions that no label points to, ascending.
func (m *modelState) free() []int64 {
	held := make(map[int64]bool)
	for _, l := range m.Labels {
		held[l.Version] = true
	}
	free := slices.SortedFunc(maps.Keys(m.Versions), cmp.Compare[int64])
	return slices.DeleteFunc(free, func(n int64) bool { return held[n] })
}
