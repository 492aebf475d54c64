package appliance

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// load makes a stored version ready to serve: the backend loads it, a scheduler stands in front of it, and it has
// answered its warm-up requests.
func (l *library) load(ctx context.Context, v *edgewise.Version) (edgewise.Servable, error) {
	if wantsCache(v.Model) && l.cache.Usage().Limit == 0 {
		return nil, edgewise.Errorf("appliance.load", edgewise.Unsupported, "model %q: response_cache.enable: this box has no cache: engine.response_cache_bytes is 0", v.Model.Name)
	}
	dir, err := l.store.Dir(v.ID)
	if err != nil {
		return nil, err
	}
	if isEnsemble(v.Model) {
		return l.loadEnsemble(v, dir)
	}
	backend, err := l.backend(v.Model)
	if err != nil {
		return nil, err
	}
	instance, err := backend.Load(ctx, v, dir, edgewise.Device{})
	if err != nil {
		return nil, err
	}
	s := sched.New(v, instance, sched.Config{Lanes: lanes(v.Model), MaxQueue: l.config.MaxQueue, Logger: l.logger})
	requests, err := warmupRequests(v.Model, dir)
	if err == nil {
		err = s.Warm(ctx, requests)
	}
	if err != nil {
		if closing := s.Close(); closing != nil {
			l.logger.Error("closing a version that failed its warm-up", "model", v.ID.String(), "error", closing)
		}
		return nil, err
	}
	return &served{l.withLabels(l.withCache(s, v), v, dir), s}, nil
}

// served is a loaded version: what its requests go through, and what is known of its process, which those in front of
// the scheduler hide.
type served struct {
	edgewise.Servable
	edgewise.Isolated
}

// withCache puts the response cache in front of a version that asks for it.
func (l *library) withCache(s edgewise.Servable, v *edgewise.Version) edgewise.Servable {
	if !wantsCache(v.Model) {
		return s
	}
	return l.cache.Wrap(v, s)
}

func wantsCache(m *edgewise.Model) bool { return m.ResponseCache != nil && m.ResponseCache.Enable }

// backend returns the backend of a model's platform.
func (l *library) backend(m *edgewise.Model) (edgewise.Backend, error) {
	for _, b := range l.config.Backends {
		if b.Platform() == m.Platform {
			return b, nil
		}
	}
	return nil, edgewise.Errorf("appliance.load", edgewise.Unsupported, "model %q: this build has no backend for platform %q", m.Name, m.Platform)
}

// lanes is how many requests of a version run at the same time: the instances that its configuration asks for.
func lanes(m *edgewise.Model) int {
	n := 0
	for _, g := range m.InstanceGroup {
		if !g.Passive {
			n += int(g.Count)
		}
	}
	return max(n, 1)
}
