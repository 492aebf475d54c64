package manager

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
)

// Split sends a share of the requests that name no version to a version beside the live one. Both stay loaded while the
// split is set and the model is wanted. The zero value is no split.
type Split struct {
	Live    int64   // the share is sent while this version is live, and none is otherwise
	Version int64   // which gets the share, where it is ready
	Share   float64 // of the requests, from 0 to 1
	// Sticky says which requests go to the same version: those of one caller for SplitByCaller, those with the same value of
	// a parameter for SplitByParameter with its name behind it; empty: each request is sent for itself. Requests of a
	// sequence always go to the version that the sequence has begun with.
	Sticky string
}

// The values of Split.Sticky.
const (
	SplitByCaller    = "caller"
	SplitByParameter = "parameter:" // with the name, which is compared without regard to case
)

// Parameter returns the name of the parameter that Sticky names, "" when it names none.
func (s Split) Parameter() string {
	name, _ := strings.CutPrefix(s.Sticky, SplitByParameter)
	if name == s.Sticky {
		return ""
	}
	return name
}

// Has tells whether a version is one of the two.
func (s Split) Has(version int64) bool {
	return version != 0 && (version == s.Live || version == s.Version)
}

// split is a Split in the table: how the requests of a live version are shared with another one that is ready.
type split struct {
	Split
	parameter string
	other     *target
	drawn     *atomic.Uint64 // how many requests were sent each for itself; it outlives the table
}

// Split sends a share of a model's requests to a version beside the live one, and keeps both loaded; the zero value ends
// that. It returns at once, and holds for models that are not known yet. A version that failed to load is loaded again
// when it enters.
func (m *Manager) Split(name string, s Split) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.splits[name]
	if s == (Split{}) {
		delete(m.splits, name)
	} else {
		m.splits[name] = s
	}
	mod := m.models[name]
	if mod == nil || m.closed {
		return
	}
	for _, number := range []int64{s.Live, s.Version} {
		if slot := mod.slots[number]; slot != nil && slot.state == edgewise.StateUnavailable && !before.Has(number) {
			delete(mod.slots, number)
		}
	}
	m.reconcile(name, mod)
}

// SplitOf returns the split of a model, the zero value when it has none.
func (m *Manager) SplitOf(name string) Split {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.splits[name]
}

// splitVersions are the versions of a model that its split keeps loaded. m.mu is held.
func (m *Manager) splitVersions(r *edgewise.Record) []int64 {
	s := m.splits[r.Name]
	if !r.Wanted || s == (Split{}) {
		return nil
	}
	return []int64{s.Live, s.Version}
}

// divide gives the version that serves its split, when the other version is ready. m.mu is held.
func (m *Manager) divide(name string, mod *model, r *route) {
	s := m.splits[name]
	if r.serving == nil || s.Share <= 0 || r.serving.version.ID.Version != s.Live {
		return
	}
	if other := r.versions[s.Version]; other != nil && other.handle != nil {
		r.serving.split = &split{Split: s, parameter: s.Parameter(), other: other, drawn: &mod.drawn}
	}
}

// target returns the ready version that a request comes to.
func (m *Manager) target(ctx context.Context, req *edgewise.Request) (*target, error) {
	t, err := m.find(req.Model)
	if err == nil && req.Model.Version == 0 && t.split != nil && t.split.sends(ctx, req, t) {
		t = t.split.other
	}
	return t, err
}

// sends tells whether a request goes to the other version and not to the live one.
func (s *split) sends(ctx context.Context, req *edgewise.Request, live *target) bool {
	if q := req.Sequence; q.Active() {
		switch {
		case !q.Start && holds(s.other.handle, q):
			return true
		case !q.Start && holds(live.handle, q):
			return false
		case q.Name != "":
			return s.sendsKey(q.Name)
		}
		return s.sendsNumber(q.ID)
	}
	switch {
	case s.Sticky == SplitByCaller:
		return s.sendsKey(edgewise.PrincipalOf(ctx).Actor())
	case s.parameter != "":
		value, there := parameterOf(req, s.parameter)
		return there && s.sendsKey(value)
	}
	return s.sendsNumber(s.drawn.Add(1))
}

// parameterOf returns a parameter of a request as text.
func parameterOf(req *edgewise.Request, name string) (value string, there bool) {
	for key, v := range req.Parameters {
		if strings.EqualFold(key, name) {
			return fmt.Sprint(v), true
		}
	}
	return "", false
}

// sendsKey decides for all requests of a key. A key that goes to the other version stays there when the share grows,
// also after a restart.
func (s *split) sendsKey(key string) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return s.sendsNumber(h.Sum64())
}

// sendsNumber scatters a number evenly over 0 to 1, differently for each version, and compares it with the share.
func (s *split) sendsNumber(n uint64) bool {
	const fraction = 53 // bits of a float64
	x := scatter(n ^ scatter(uint64(s.Version)))
	return float64(x>>(64-fraction))/(1<<fraction) < s.Share
}

// scatter is the finalizer of SplitMix64, a bijection whose outputs look random.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
