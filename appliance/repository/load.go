package repository

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/edgewise-ai/edgewise"
	layout "github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
	"github.com/edgewise-ai/edgewise/ensemble"
)

// change is what a load gives in place of what stands in the model's folder. Files hold for this load alone; a
// configuration without files holds until the folder changes or the model is unloaded.
type change struct {
	config []byte            // JSON; nil: the folder's
	files  map[string][]byte // by path inside the model's folder; nil: the folder's, otherwise only these exist
	step   bool              // it is loaded because an ensemble runs it
	above  []string          // the ensembles that it is loaded for, the outermost first

	nesting bool // nestingLock is held
}

// load makes a model ready as its folder says, or as c does, and waits for it. A model that is ready and whose folder
// has not changed is left alone. Errors: Invalid, in Triton's words.
func (s *Repositories) load(ctx context.Context, name string, c change) error {
	if err := s.begin(ctx, name, c); err != nil {
		return err
	}
	return s.settle(ctx, name)
}

// settle waits for a model that has begun to load, and then for the ensembles that run it.
func (s *Repositories) settle(ctx context.Context, name string) error {
	err := s.registry.Settle(ctx, name)
	for range s.config.LoadRetries {
		if err == nil || ctx.Err() != nil {
			break
		}
		s.registry.Retry(name)
		err = s.registry.Settle(ctx, name)
	}
	s.mu.Lock()
	m := s.models[name]
	if m != nil {
		m.failed = err != nil
		if err == nil {
			m.leaving = nil
		}
	}
	s.mu.Unlock()
	if err == nil && m != nil {
		if unkept := m.folder.Keep(); unkept != nil {
			s.logger.Error("the state of a model cannot be kept for a start without its repository", "model", name, "error", unkept)
		}
	}
	s.registry.Sweep(ctx, name)
	if err == nil {
		s.again(ctx, name)
	}
	return err
}

// begin stores what a model is now and starts to load it; what an ensemble runs comes before it.
func (s *Repositories) begin(ctx context.Context, name string, c change) error {
	err := s.beginOne(ctx, name, c)
	if !errors.Is(err, errNests) {
		return err
	}
	unlock, err := s.registry.Lock(ctx, nestingLock)
	if err != nil {
		return err
	}
	defer unlock()
	c.nesting = true
	return s.beginOne(ctx, name, c)
}

// nestingLock is held while an ensemble begins to load with what it runs, which takes the locks of several models:
// ensembles that say that they run each other would wait for each other. It is no name that a model can have, and is
// taken before those.
const nestingLock = "(ensembles that load)"

// errNests says that a model runs others, and that nestingLock is to be held for that.
var errNests = errors.New("it runs other models")

// beginOne is begin for a model that runs no others, and for any with nestingLock held. Errors: errNests too.
func (s *Repositories) beginOne(ctx context.Context, name string, c change) (err error) {
	unlock, err := s.registry.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	defer s.registry.Hold(name)()
	defer s.recovered(name, &err)
	s.fetching.RLock()
	defer s.fetching.RUnlock()
	contents, kept, err := s.read(ctx, name, c)
	if err != nil {
		return err
	}
	declared, err := declaration(contents.Contents)
	if err != nil {
		return s.unpolled(name, contents.Contents, err)
	}
	steps := ensemble.StepModels(declared)
	if len(steps) > 0 && !c.nesting {
		return errNests
	}
	if err := s.beginSteps(ctx, name, declared, c); err != nil {
		return s.refused(name, contents.Contents, err)
	}
	for _, said := range contents.Ignored() {
		s.logger.Warn(said, "model", name)
	}
	numbers := picked(declared.VersionPolicy, contents.Numbers())
	if len(numbers) == 0 {
		return s.unpolled(name, contents.Contents, edgewise.Errorf("repository.Load", edgewise.Invalid,
			"at least one version must be available under the version policy of model '%s'", name))
	}
	next := &source{
		versions: map[int64]*edgewise.Version{}, stamps: map[int64]string{}, wanted: true, steps: steps, kept: kept,
		behind: contents.behind, folder: contents.folder,
	}
	old := s.brought(name)
	next.asked = !c.step || old != nil && old.wanted && old.asked
	for _, number := range numbers {
		if err := s.take(ctx, contents.Contents, number, old, next); err != nil {
			return s.refused(name, contents.Contents, err)
		}
	}
	next.leaving = s.leaving(old, next)
	s.put(name, next)
	return nil
}

// recovered keeps a panic over a model's files, which is our own bug, from ending the process at this and at each start.
func (s *Repositories) recovered(name string, err *error) {
	if cause := recover(); cause != nil {
		s.logger.Error("BUG: reading a model panicked", "model", name, "panic", fmt.Sprint(cause), "stack",
			string(debug.Stack()))
		*err = &edgewise.Error{Op: "repository.load", Kind: edgewise.Internal}
	}
}

// leaving are the versions of old that next does not have, ascending.
func (s *Repositories) leaving(old, next *source) (list []int64) {
	if old == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !old.wanted {
		return nil
	}
	for _, number := range slices.AppendSeq(slices.Clone(old.leaving), maps.Keys(old.versions)) {
		if next.versions[number] == nil {
			list = append(list, number)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// put shows a source and tells the manager of it.
func (s *Repositories) put(name string, next *source) {
	s.mu.Lock()
	s.models[name] = next
	delete(s.gone, name)
	r := next.record(name)
	s.mu.Unlock()
	s.registry.Serve(r)
}

// beginSteps begins to load what an ensemble runs. When some of that cannot be loaded, the error reports everything
// that is wrong with the ensemble.
func (s *Repositories) beginSteps(ctx context.Context, name string, declared *edgewise.Model, c change) error {
	var problems []error
	for _, step := range ensemble.StepModels(declared) {
		if err := s.beginStep(ctx, name, step, c); err != nil {
			problems = append(problems, edgewise.Errorf("repository.Load", edgewise.KindOf(err),
				"ensemble '%s' depends on '%s' which has no loaded version: %w", name, step, err))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	m, err := modelconfig.Ensemble(declared, name, s.defaults)
	if problems = append(problems, err); m != nil {
		problems = append(problems, ensemble.Validate(m, ensemble.Known(m, s.registry.Lookup)))
	}
	return errors.Join(problems...)
}

// beginStep begins to load what an ensemble runs, unless it is there already. A model that no repository has may be in
// the store.
func (s *Repositories) beginStep(ctx context.Context, ensemble, step string, c change) error {
	above := append(slices.Clone(c.above), ensemble)
	if slices.Contains(above, step) {
		return edgewise.Errorf("repository.Load", edgewise.Invalid,
			"circular dependency between ensembles: %s", listedNames(append(above, step)))
	}
	if m := s.brought(step); m != nil && s.serves(m) || m == nil && !s.has(step) && s.registry.Lookup(step) != nil {
		return nil
	}
	return s.beginOne(ctx, step, change{step: true, above: above, nesting: true})
}

func (s *Repositories) serves(m *source) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.wanted && !m.failed
}

// picked are the versions that a policy picks.
func picked(p *edgewise.VersionPolicy, numbers []int64) []int64 {
	switch {
	case p != nil && p.All != nil:
		return numbers
	case p != nil && p.Specific != nil:
		return slices.DeleteFunc(numbers, func(n int64) bool { return !slices.Contains(p.Specific.Versions, n) })
	}
	n := 1
	if p != nil && p.Latest != nil {
		n = int(max(p.Latest.NumVersions, 1))
	}
	return numbers[max(0, len(numbers)-n):]
}

// take stores one version of a model for next, or keeps what old has of it when nothing has changed. What an ensemble
// runs is pinned again each time.
func (s *Repositories) take(ctx context.Context, c *layout.Contents, number int64, old, next *source) error {
	files, err := c.Version(number)
	if err != nil {
		return err
	}
	stamp := files.Stamp()
	next.stamps[number] = stamp
	if old != nil && old.stamps[number] == stamp && old.versions[number] != nil && len(next.steps) == 0 {
		next.versions[number] = old.versions[number]
		return nil
	}
	if old == nil && s.registry.Uploaded(c.Name) {
		return edgewise.Errorf("repository.Load", edgewise.Exists,
			"model '%s' was uploaded to this box: delete it there, or give the folder another name", c.Name)
	}
	upload, closer := files.Upload("")
	v, err := s.registry.Import(ctx, upload)
	if closing := closer.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	public := *v
	public.ID.Version, public.Stored = number, v.ID.Version
	if place := next.folder.Place(); config.IsRemote(place) {
		public.Origin = place
	}
	if old != nil && old.versions[number] != nil && len(next.steps) > 0 && old.versions[number].Digest == v.Digest {
		next.versions[number] = old.versions[number] // the same again: what was stored just now is swept
		return nil
	}
	next.versions[number] = &public
	return nil
}

// refused notes why a version of a model could not be loaded, and says so in Triton's words. What serves goes on
// serving.
func (s *Repositories) refused(name string, c *layout.Contents, cause error) error {
	id := s.noteFailure(name, c, cause)
	err := edgewise.Errorf("repository.Load", loadKind(cause),
		"load failed for model '%s': version %d is at UNAVAILABLE state: %w;", name, id.Version, cause)
	err.Model = id
	return err
}

// unpolled is refused for a model whose folder does not say what to load.
func (s *Repositories) unpolled(name string, c *layout.Contents, cause error) error {
	id := s.noteFailure(name, c, cause)
	err := edgewise.Errorf("repository.Load", loadKind(cause),
		"failed to load '%s', failed to poll from model repository: %w", name, cause)
	err.Model = id
	return err
}

// noteFailure makes a model one that is wanted and not ready, and returns the version that the index shows for it.
func (s *Repositories) noteFailure(name string, c *layout.Contents, cause error) edgewise.ModelID {
	id := edgewise.ModelID{Name: name, Version: 1}
	if numbers := c.Numbers(); len(numbers) > 0 {
		id.Version = numbers[len(numbers)-1]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[name]
	if m == nil || !m.wanted {
		failed := &source{failed: true, wanted: true, asked: true, states: []edgewise.Status{{ID: id, Reason: cause.Error()}}}
		s.models[name] = failed
		s.registry.Show(failed.record(name))
	} else {
		m.failed = true
	}
	return id
}

func loadKind(cause error) edgewise.Kind {
	if kind := edgewise.KindOf(cause); kind != edgewise.NotFound {
		return kind
	}
	return edgewise.Invalid
}

// again stores and loads again the ensembles that run a model whose version has been replaced, and those that were
// unloaded because it was.
func (s *Repositories) again(ctx context.Context, step string) {
	now := s.brought(step)
	for _, name := range s.users(step, func(m *source) bool { return m.stopped || m.wanted && m.outdated(step, now) }) {
		if err := s.load(ctx, name, change{}); err != nil {
			s.logger.Error("an ensemble failed to load after a model that it runs",
				"ensemble", name, "model", step, "error", err)
		}
	}
}

// outdated tells whether a version of an ensemble is pinned to something that a model is not any more.
func (m *source) outdated(step string, now *source) bool {
	for _, v := range m.versions {
		if v.Model.EnsembleScheduling == nil {
			continue
		}
		for _, part := range v.Model.EnsembleScheduling.Step {
			if part.ModelName != step || part.Pinned == nil || now == nil {
				continue
			}
			if present := now.versions[part.Pinned.Version]; present == nil || present.Digest != part.Pinned.Digest || newer(now, part) {
				return true
			}
		}
	}
	return false
}

// newer tells whether a step that follows the latest version is behind it.
func newer(now *source, part edgewise.EnsembleStep) bool {
	if part.ModelVersion != -1 {
		return false
	}
	for number := range now.versions {
		if number > part.Pinned.Version {
			return true
		}
	}
	return false
}

// users lists the models that run another one themselves and for which which is true, by name.
func (s *Repositories) users(step string, which func(*source) bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, m := range s.models {
		if slices.Contains(m.steps, step) && which(m) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
