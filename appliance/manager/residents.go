package manager

import (
	"context"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// A ready version whose process can be ended gives its memory to others when they need it, and takes it again with its
// next request: see edgewise.Resident. Its state stays Ready; its slot has no bytes meanwhile.

// settleMemory books what a version that has been loaded really takes, and lets it give that up. m.mu is held.
func (m *Manager) settleMemory(name string, s *slot) {
	r := s.handle.loaded.Resident
	if r == nil || m.config.Memory <= 0 {
		return
	}
	m.taken(s, r.Takes)
	s.demand.Begin(r)
	if s.handle.loaded.Pinned {
		return
	}
	r.OnDemand(edgewise.Claims{
		Take: func(ctx context.Context) error {
			m.mu.Lock()
			f := Footprint{Bytes: s.footprint.Bytes}
			m.mu.Unlock()
			return m.take(ctx, name, s, f)
		},
		Taken: func(now, most int64) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.taken(s, func() (int64, int64) { return max(now, s.before), most }) // its runs take what they took before
			m.publish()
		},
		Give: func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if !s.waking { // otherwise these are the bytes of a start that failed
				s.before = s.bytes
			}
			s.bytes, s.waking, s.turn = 0, false, false
			m.publish()
		},
		Scarce: m.scarce.Load,
	})
}

// taken notes what the process of a version takes. m.mu is held.
func (m *Manager) taken(s *slot, takes func() (now, most int64)) {
	s.waking, s.turn = false, false
	now, most := takes()
	if now == 0 || s.footprint.Stated {
		return // it has gone meanwhile, or is not asked
	}
	if s.bytes = now; !s.measured {
		s.measured, s.told, s.footprint.Bytes = true, 0, 0 // it was an estimate, or another process
	}
	s.footprint.Bytes = max(s.footprint.Bytes, most) // starts differ
}

// restable lists the versions that can give their memory up for s, nil for nobody, in the order in which they are to. The
// one that serves does not for a version that is loaded beside it: whether it has to go for that is said by Footprint.Gap.
// m.mu is held.
func (m *Manager) restable(s *slot) []*slot {
	var all []Use
	var list []candidate
	for name, mod := range m.models {
		for number, other := range mod.slots {
			if other.state != edgewise.StateReady || other.handle.loaded.Resident == nil {
				continue
			}
			u := UseOf(other.handle.loaded.Resident, &other.demand, name, other.bytes)
			all = append(all, u)
			beside := s != nil && s.state == edgewise.StateLoading && s.version.ID.Name == name && mod.serving == number
			if other != s && !beside && other.restable() {
				list = append(list, candidate{u, other})
			}
		}
	}
	Age(all)
	slices.SortFunc(list, func(c, d candidate) int { return c.use.Before(d.use) })
	slots := make([]*slot, len(list))
	for i, c := range list {
		slots[i] = c.slot
	}
	return slots
}

// candidate is a version that may rest, as it is used now.
type candidate struct {
	use  Use
	slot *slot
}

// restable tells whether a version has memory that it gives up for others.
func (s *slot) restable() bool {
	return s.state == edgewise.StateReady && s.bytes > 0 && !s.resting && !s.waking &&
		s.handle.loaded.Resident != nil && !s.handle.loaded.Pinned
}

// rest has versions give up at least so many bytes, in the order of the list. m.mu is held.
func (m *Manager) rest(list []*slot, bytes int64) {
	for _, s := range list {
		if bytes <= 0 {
			return
		}
		bytes -= s.bytes
		s.resting = true
		id, freed := s.version.ID, s.bytes
		m.work.Go(func() {
			rested := s.handle.loaded.Resident.Rest()
			if rested {
				m.config.Logger.Info("a model gave its memory up for others", "model", id.String(), "bytes", freed)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			s.resting = false
			m.publish()
		})
	}
}

// Watch looks at what the processes of versions take, and has some rest when that has become more than there is for all
// of them, or when low says that the machine has little memory left. It returns when ctx ends.
func (m *Manager) Watch(ctx context.Context, low func() bool) {
	if m.config.Memory <= 0 {
		return
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m.look(low())
	}
}

// look is what Watch does each time.
func (m *Manager) look(low bool) {
	m.relieve(low)
	m.tellMeasured()
}

// tellMeasured says what versions take, where it is not what was said before.
func (m *Manager) tellMeasured() {
	if m.config.Measured == nil {
		return
	}
	for id, bytes := range m.news() {
		m.config.Measured(id, bytes)
	}
}

// news is what is to be said of the versions that were measured.
func (m *Manager) news() map[edgewise.ModelID]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := map[edgewise.ModelID]int64{}
	for _, mod := range m.models {
		for _, s := range mod.slots {
			most := s.footprint.Bytes
			if differs := max(most-s.told, s.told-most) > s.told/8; s.state == edgewise.StateReady && s.measured && differs {
				s.told, list[s.version.ID] = most, most
			}
		}
	}
	return list
}

// watchEvery is the interval of Watch.
const watchEvery = time.Second

// anyRests tells whether a ready version has given its memory up. m.mu is held.
func (m *Manager) anyRests() bool {
	for _, mod := range m.models {
		for _, s := range mod.slots {
			if s.state == edgewise.StateReady && s.handle.loaded.Resident != nil && (s.bytes == 0 || s.resting) {
				return true
			}
		}
	}
	return false
}

// relieve has the versions rest that are asked for least, until all of them take no more than they may; one of
// them when there is too little memory anyway, unless one is resting already.
func (m *Manager) relieve(low bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.restable(nil)
	for _, s := range list {
		m.taken(s, s.handle.loaded.Resident.Takes)
	}
	m.scarce.Store(m.anyRests())
	used, leaving := m.memory()
	over := used - leaving - m.config.Memory
	if low && leaving == 0 {
		over = max(over, 1)
	}
	m.rest(list, over)
}
