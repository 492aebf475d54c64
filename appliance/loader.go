package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/manager"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// load makes a stored version ready to serve: the backend loads it, a scheduler stands in front of it, and it has
// answered its warm-up requests.
func (l *library) load(ctx context.Context, v *edgewise.Version) (edgewise.Servable, error) {
	if wantsCache(v.Model) && l.cache.Usage().Limit == 0 {
		return nil, edgewise.Errorf("appliance.load", edgewise.Unsupported, "model %q: response_cache.enable: this box has no cache: engine.response_cache_bytes is 0", v.Model.Name)
	}
	dir, err := l.store.Dir(v.StoredID())
	if err != nil {
		return nil, err
	}
	if l.loading != nil {
		defer l.loading(v.ID)()
	}
	if v.Stored == 0 {
		return l.loadFrom(ctx, v, dir)
	}
	l.sources.opened(v)
	s, err := l.loadFrom(ctx, v, dir)
	if err != nil {
		l.sources.closed(v)
		return nil, err
	}
	return l.kept(s, v), nil
}

// loadFrom loads a version whose files stand in dir.
func (l *library) loadFrom(ctx context.Context, v *edgewise.Version, dir string) (edgewise.Servable, error) {
	if isEnsemble(v.Model) {
		s, err := l.loadEnsemble(v, dir)
		if err == nil {
			l.announce(v.ID, "")
		}
		return s, err
	}
	backend, err := l.backend(v.Model)
	if err != nil {
		return nil, err
	}
	padding, err := l.padding(ctx, v)
	if err != nil {
		return nil, err
	}
	proof, err := l.proof(ctx, v, dir)
	if err != nil {
		return nil, err
	}
	p, err := l.placement(v.Model)
	if err != nil {
		return nil, err
	}
	instance, err := l.loadOn(ctx, backend, v, dir, p.devices)
	if err != nil {
		return nil, err
	}
	claim, err := l.claim(v)
	if err != nil {
		return nil, errors.Join(err, instance.Close())
	}
	s, err := l.schedule(v, instance, p, beforehand{padding, proof, claim}, dir)
	if err != nil {
		claim.Close()
		return nil, errors.Join(err, instance.Close())
	}
	unverified, err := l.warm(ctx, s, v, dir)
	if err != nil {
		if closing := s.Close(); closing != nil {
			l.logger.Error("closing a version that failed its warm-up", "model", v.ID.String(), "error", closing)
		}
		return nil, err
	}
	front, err := l.withPictures(ctx, s, v, instance, p)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	loaded := &served{l.withLabels(l.withCache(l.withThrottle(front, v, p.devices), v), v, dir), s, lends(s, v.Model), func(m *edgewise.Model) {
		if err := claim.Resize(m); err != nil {
			l.logger.Error("rate_limiter of the instance groups stays as it was", "model", v.ID.String(), "error", err)
		}
		front.Resize(l.lanes(m, p.devices), m)
	}}
	l.announce(v.ID, unverified)
	if sequencer, ok := s.(edgewise.Sequencer); ok {
		return &servedSequences{loaded, sequencer}, nil
	}
	return loaded, nil
}

// warm runs the warm-up requests of a version, or makes sure that it works where it declares none; see tryOnce.
func (l *library) warm(ctx context.Context, s scheduler, v *edgewise.Version, dir string) (unverified string, err error) {
	l.phases.warming(v.ID)
	requests, err := warmupRequests(v.Model, dir)
	if err != nil {
		return "", err
	}
	if unverified, err = tryOnce(ctx, v.Model, s); err != nil {
		return "", err
	}
	return unverified, s.Warm(ctx, requests)
}

// announce says that a version has been loaded, and why no run has shown that it works; "" when one has.
func (l *library) announce(id edgewise.ModelID, unverified string) {
	if unverified != "" {
		l.logger.Info("version is not verified", "model", id.String(), "reason", unverified)
	}
	if l.loaded != nil {
		l.loaded(id, unverified)
	}
}

// scheduler is what stands in front of an instance.
type scheduler interface {
	edgewise.Servable
	edgewise.Isolated
	Warm(ctx context.Context, requests []*edgewise.Request) error
	Resize(lanes int, m *edgewise.Model)
}

// plain is a scheduler of requests that have nothing to do with each other.
type plain struct{ *sched.Scheduler }

// Resize changes how many requests run at the same time.
func (p plain) Resize(lanes int, _ *edgewise.Model) { p.Scheduler.Resize(lanes) }

// claim counts a version's instances in with the rate limiter; nil when it is off.
func (l *library) claim(v *edgewise.Version) (*sched.Claim, error) {
	if l.config.Limiter == nil && slices.ContainsFunc(v.Model.InstanceGroup, func(g edgewise.InstanceGroup) bool { return g.RateLimiter != nil }) {
		l.logger.Info("rate_limiter has no effect: engine.rate_limit is off", "model", v.ID.String())
	}
	return l.config.Limiter.Open(v.Model)
}

// beforehand is what is known of a version's requests before it has run.
type beforehand struct {
	padding *sched.Padding
	proof   *sched.Proof
	claim   *sched.Claim
}

// schedule puts the scheduler that a version asks for in front of its instance.
func (l *library) schedule(v *edgewise.Version, instance edgewise.Instance, p placement, b beforehand, dir string) (scheduler, error) {
	config := sched.Config{
		Lanes: p.lanes, Cores: p.cores, Threads: p.threads, Wide: p.wide, Claim: b.claim, Padding: b.padding, Proof: b.proof,
		MaxQueue: l.config.MaxQueue, Hold: l.config.Hold, Logger: l.logger,
	}
	if l.config.Hold != (sched.Hold{}) {
		l.logger.Warn("a test holds requests back (engine.test_queued, engine.test_backlog)", "model", v.ID.String(), "until", config.Hold)
	}
	if v.Model.SequenceBatching == nil {
		return plain{sched.New(v, instance, config)}, nil
	}
	initial, err := initialStates(v.Model, dir)
	if err != nil {
		return nil, err
	}
	return sched.NewSequences(v, instance, config, sched.SequenceConfig{Initial: initial, Budget: l.config.States}), nil
}

// padding is how a version's requests are padded. Only for a version that asks for it is the model file read.
func (l *library) padding(ctx context.Context, v *edgewise.Version) (*sched.Padding, error) {
	if _, ok := v.Model.Parameters[sched.PaddingParameter]; !ok {
		return nil, nil
	}
	inspection, err := l.inspectVersion(ctx, v)
	if err != nil {
		return nil, err
	}
	return sched.NewPadding(v.Model, inspection)
}

// proof is what the configuration that a version's author wrote, and the names of dimensions in its file, say of whether its
// requests may be merged. What a stored version was completed to does not say who chose it.
func (l *library) proof(ctx context.Context, v *edgewise.Version, dir string) (*sched.Proof, error) {
	declared, err := l.groups.declaration(v), error(nil)
	if declared == nil {
		declared, err = modelconfig.Read(dir, v.Model.Name)
	}
	if err != nil {
		return nil, err
	}
	if word := modelconfig.Declared(declared); word != "" {
		return &sched.Proof{Declared: word}, nil
	}
	inspection, err := l.inspectVersion(ctx, v)
	if err != nil {
		return nil, err
	}
	if n := inspection.MaxBatchSize; n != nil && *n > 0 {
		return &sched.Proof{Declared: fmt.Sprintf("the model's file declares max_batch_size %d", *n)}, nil
	}
	return &sched.Proof{Refuted: modelconfig.Unshared(inspection)}, nil
}

// served is a loaded version: what its requests go through, and what is known of its process and can be changed of its
// lanes, which those in front of the scheduler hide.
type served struct {
	edgewise.Servable
	edgewise.Isolated
	lend   func(n int) (data []byte, free func()) // nil: it lends nothing
	resize func(m *edgewise.Model)
}

// Lend lends memory for inputs of a request to come; see edgewise.Lender.
func (s *served) Lend(n int) (data []byte, free func()) {
	if s.lend == nil {
		return nil, nil
	}
	return s.lend(n)
}

// lends returns what lends memory for the requests of a version; nil where they are looked at before they run, since another process
// may change what was looked at.
func lends(s scheduler, m *edgewise.Model) func(n int) (data []byte, free func()) {
	if direct, ok := s.(plain); ok && !wantsCache(m) {
		return direct.Lend
	}
	return nil
}

// servedSequences is a loaded version that keeps sequences.
type servedSequences struct {
	*served
	edgewise.Sequencer
}

// Resize changes how many requests run at the same time, to what m's instance groups say.
func (s *served) Resize(m *edgewise.Model) { s.resize(m) }

// kept tells the sources when a version that one of them brought is closed.
func (l *library) kept(s edgewise.Servable, v *edgewise.Version) edgewise.Servable {
	switch inner := s.(type) {
	case *served:
		return l.keptServed(inner, v)
	case *servedSequences:
		return &servedSequences{l.keptServed(inner.served, v), inner.Sequencer}
	}
	return &keptServable{s, l.sources, v}
}

func (l *library) keptServed(s *served, v *edgewise.Version) *served {
	return &served{&keptServable{s.Servable, l.sources, v}, s.Isolated, s.lend, s.resize}
}

type keptServable struct {
	edgewise.Servable
	sources *sources
	version *edgewise.Version
}

// Close closes the version.
func (k *keptServable) Close() error {
	err := k.Servable.Close()
	k.sources.closed(k.version)
	return err
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

// What a version takes in memory, as a multiple of its weights: the file as it is parsed, the weights, and their copy in
// the layout that the runtime's kernels want. Measured: a file of 102 MB takes 190 to 260 MiB.
const memoryFactor = 3

// footprint estimates what a version takes while it is loaded, and whether it may take the place of its predecessor.
func (l *library) footprint(ctx context.Context, v *edgewise.Version) (manager.Footprint, error) {
	f := manager.Footprint{Gap: l.config.Gap}
	if choice, ok := v.Model.Parameters[modelconfig.SwapParameter]; ok {
		f.Gap = choice.StringValue == modelconfig.SwapGap
	}
	if stated, err := strconv.ParseInt(v.Model.Parameters[modelconfig.MemoryParameter].StringValue, 10, 64); err == nil {
		f.Bytes = stated
		return f, nil
	}
	if isEnsemble(v.Model) {
		return f, nil
	}
	inspection, err := l.inspectVersion(ctx, v)
	if err != nil {
		return f, err
	}
	f.Bytes = inspection.ParameterBytes * memoryFactor
	return f, nil
}
