package appliance

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

// originRepository is the Origin of versions that a repository's folder brought.
const originRepository = "repository"

// sources are the model repositories: folders in Triton's layout, each of which feeds the store. What stands in a model's
// folder may change under the same version number, and what is stored never does: so each state of a version is stored
// under a number of the store's own, and a table here says which of them stands for which public number now. Everything
// else of the box sees public numbers only.
type sources struct {
	library *library
	config  config.Repository
	logger  *slog.Logger

	mu       sync.Mutex // guards what follows, and the fields of each source
	models   map[string]*source
	open     map[edgewise.ModelID]int // by stored number: servables that have not been closed
	bringing map[string]bool          // models of which versions are being stored that are not shown yet
	loading  bool                     // the models that are wanted at the start are not there yet
	missing  bool                     // a folder could not be read at the start, nor since then
}

// source is one model that a repository has brought. A new one is made for each change.
type source struct {
	versions map[int64]*edgewise.Version // by public number, as they are to be served
	stamps   map[int64]string            // of their files, when they were stored
	declared string                      // stamp of a configuration that came with the load; such a load is not repeated
	wanted   bool
	asked    bool     // by its own name, not because an ensemble runs it
	steps    []string // models that it runs
	failed   bool     // the last load did not end well
	stopped  bool     // it was unloaded because a model that it runs was
	states   []edgewise.Status
}

func newSources(l *library, c config.Repository, logger *slog.Logger) *sources {
	c.Folders = distinct(c.Folders)
	return &sources{
		library: l, config: c, logger: logger, models: map[string]*source{}, open: map[edgewise.ModelID]int{}, bringing: map[string]bool{},
		loading: len(c.Folders) > 0,
	}
}

// distinct leaves out the folders that were named before, in whatever spelling.
func distinct(folders []string) []string {
	var list []string
	seen := map[string]bool{}
	for _, dir := range folders {
		place := filepath.Clean(dir)
		if absolute, err := filepath.Abs(dir); err == nil {
			place = absolute
		}
		if !seen[place] {
			seen[place] = true
			list = append(list, dir)
		}
	}
	return list
}

// enabled tells whether there are repositories at all.
func (s *sources) enabled() bool { return len(s.config.Folders) > 0 }

// controllable returns nil when clients may load and unload models. Its words are Triton's.
func (s *sources) controllable() error {
	if s.enabled() && s.config.ControlMode != config.ControlExplicit {
		return edgewise.Errorf("appliance.Load", edgewise.Unavailable, "explicit model load / unload is not allowed if polling is enabled")
	}
	return nil
}

// folders lists the folders of a model, or of all for the empty name. A model that stands in several repositories has
// several. With an error come those of the repositories that could be read.
func (s *sources) folders(name string) (map[string][]repository.Folder, error) {
	found := map[string][]repository.Folder{}
	var problems []error
	for _, dir := range s.config.Folders {
		folders, refused, err := repository.Folders(dir)
		problems = append(problems, err)
		for _, err := range refused {
			s.logger.Debug("a folder of the repository is not a model", "error", err)
		}
		for _, f := range folders {
			if name == "" || f.Name == name {
				found[f.Name] = append(found[f.Name], f)
			}
		}
	}
	return found, errors.Join(problems...)
}

// contents reads what the repositories have of a model. Errors: Invalid, in Triton's words where there is nothing.
func (s *sources) contents(name string) (*repository.Contents, error) {
	const op = "appliance.Load"
	found, err := s.folders(name)
	switch {
	case err != nil:
		return nil, edgewise.Errorf(op, edgewise.Unavailable, "failed to load '%s', failed to poll from model repository: %w", name, err)
	case len(found[name]) == 0:
		return nil, edgewise.Errorf(op, edgewise.Invalid, "failed to load '%s', failed to poll from model repository", name)
	case len(found[name]) > 1:
		return nil, edgewise.Errorf(op, edgewise.Invalid, "failed to load '%s', failed to poll from model repository: %s", name, duplicateReason)
	}
	c, err := found[name][0].Contents(s.config.ConfigName)
	if err != nil {
		return nil, edgewise.Errorf(op, edgewise.Invalid, "failed to load '%s', failed to poll from model repository: %w", name, err)
	}
	return c, nil
}

const duplicateReason = "model appears in two or more repositories"

// has tells whether a repository has a model now, or has brought it.
func (s *sources) has(name string) bool {
	if s.brought(name) != nil {
		return true
	}
	found, _ := s.folders(name)
	return len(found[name]) > 0
}

func (s *sources) brought(name string) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models[name]
}

// record shows what is stored about a model under public numbers. r is what the store says; it is returned as it is for a
// model that no repository brought, and nil for one of which there is nothing to show.
func (s *sources) record(name string, r *edgewise.Record) *edgewise.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[name]
	if m == nil {
		return r
	}
	return m.record(name)
}

// record is the source in the form of a stored model. s.mu is held.
func (m *source) record(name string) *edgewise.Record {
	r := &edgewise.Record{Name: name, Wanted: m.wanted}
	for _, v := range m.versions {
		r.Versions = append(r.Versions, v)
	}
	slices.SortFunc(r.Versions, func(a, b *edgewise.Version) int { return int(min(max(a.ID.Version-b.ID.Version, -1), 1)) })
	if n := len(r.Versions); n > 0 {
		last := r.Versions[n-1]
		r.Labels = []edgewise.Label{{Name: edgewise.LiveLabel, Version: last.ID.Version, Changed: last.Created}}
	}
	return r
}

// foreign returns why a model must not be changed in the store: a repository's folder says what it is.
func (s *sources) foreign(op, name string) error {
	if s.brought(name) == nil {
		return nil
	}
	return edgewise.Errorf(op, edgewise.Conflict, "model %q comes from a model repository: change its folder, and load it", name)
}

// opened counts a servable of a version until closed is called for it.
func (s *sources) opened(v *edgewise.Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[v.StoredID()]++
}

func (s *sources) closed(v *edgewise.Version) {
	s.mu.Lock()
	if s.open[v.StoredID()]--; s.open[v.StoredID()] == 0 {
		delete(s.open, v.StoredID())
	}
	s.mu.Unlock()
	s.sweep(context.Background(), v.ID.Name)
}

// bring keeps what is stored of a model from being swept until brought is called, which sweeps. The model's lock is held.
func (s *sources) bring(name string) (brought func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bringing[name] = true
	return func() {
		s.mu.Lock()
		delete(s.bringing, name)
		s.mu.Unlock()
		s.sweep(context.Background(), name)
	}
}

// sweep deletes what is stored of a model and neither shown nor loaded any more. While some of it is being brought, who brings it sweeps.
func (s *sources) sweep(ctx context.Context, name string) {
	r, err := s.library.store.Record(name)
	if err != nil {
		return
	}
	for _, v := range r.Versions {
		if v.Origin == originRepository && !s.inUse(v.ID) {
			if err := s.library.store.DeleteVersion(ctx, v.ID); err != nil && edgewise.KindOf(err) != edgewise.NotFound {
				s.logger.Error("what a repository brought earlier cannot be deleted", "model", name, "error", err)
			}
		}
	}
}

func (s *sources) inUse(stored edgewise.ModelID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[stored] > 0 || s.bringing[stored.Name] {
		return true
	}
	m := s.models[stored.Name]
	if m == nil {
		return false
	}
	for _, v := range m.versions {
		if v.Stored == stored.Version {
			return true
		}
	}
	return false
}

// start loads what is wanted from the beginning. It returns why models failed, when the box is not to run then.
func (s *sources) start(ctx context.Context) error {
	if !s.enabled() {
		return nil
	}
	for _, r := range s.library.store.Records() {
		s.sweep(ctx, r.Name) // what an earlier run brought: it is read again
	}
	_, unread := s.folders("")
	err := errors.Join(unread, s.loadAll(ctx))
	s.mu.Lock()
	s.loading, s.missing = false, unread != nil
	s.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case s.config.ExitOnError && ctx.Err() == nil:
		return edgewise.Errorf("appliance.Run", edgewise.KindOf(err), "failed to load all models: %w", err)
	}
	return nil
}

// atStart lists the models that are loaded from the beginning.
func (s *sources) atStart() ([]string, error) {
	wanted := s.config.LoadModels
	if s.config.ControlMode == config.ControlExplicit && !slices.Contains(wanted, "*") {
		return wanted, nil
	}
	if s.config.ControlMode == config.ControlExplicit && len(wanted) > 1 {
		return nil, edgewise.Errorf("appliance.Run", edgewise.Invalid, "Wildcard model name '*' must be the ONLY startup model if specified at all.")
	}
	found, _ := s.folders("") // start tells of a folder that cannot be read
	return slices.Sorted(maps.Keys(found)), nil
}

// initialized tells whether every repository could be read. As in Triton a box without one of them is not even live: an orchestrator
// starts it again, and polling finds the folder when it is back.
func (s *sources) initialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.missing
}

func (s *sources) loadAll(ctx context.Context) error {
	names, err := s.atStart()
	problems := []error{err}
	begun := make([]string, 0, len(names))
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.begin(ctx, name, change{}); err != nil {
			s.logger.Error("model failed to load", "model", name, "error", err)
			problems = append(problems, err)
			continue
		}
		begun = append(begun, name)
	}
	for _, name := range begun {
		problems = append(problems, s.settle(ctx, name))
	}
	return errors.Join(problems...)
}

// watch follows the repositories until ctx ends.
func (s *sources) watch(ctx context.Context) {
	if !s.enabled() || s.config.ControlMode != config.ControlPoll {
		return
	}
	p := &poller{sources: s, tried: map[string]string{}}
	ticker := time.NewTicker(s.config.PollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.look(ctx)
		}
	}
}

// listedNames writes names for a message.
func listedNames(names []string) string { return strings.Join(names, ", ") }
