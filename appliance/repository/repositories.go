// Package repository brings what model repositories hold into the registry: folders in Triton's layout, loaded at the
// start, when they change, or when a client asks for it.
package repository

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	layout "github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/modelconfig"
)

// Registry is what repositories need of the models that are stored and served. All methods are safe for concurrent use.
type Registry interface {
	// Lock waits for the lock of a model, or of a name that no model can have, and returns what releases it. Error: ctx's.
	Lock(ctx context.Context, name string) (unlock func(), err error)
	// Lookup returns what is known of a model, nil when nothing is.
	Lookup(name string) *edgewise.Record
	// Uploaded tells whether a version of a model is stored that no repository has brought.
	Uploaded(name string) bool
	// Import stores a version that a repository brings, under the next number of the store. Errors: those of the
	// upload, Invalid, TooLarge, Unsupported, Exhausted, Corrupt.
	Import(ctx context.Context, up edgewise.Upload) (*edgewise.Version, error)
	// Hold keeps what is imported of a model from being deleted until release is called. The model's lock is held.
	Hold(name string) (release func())
	// Show makes r what is known of a model that a repository has brought. What is served stays as it is.
	Show(r *edgewise.Record)
	// Serve is Show, and makes the model be served as r says. It returns at once.
	Serve(r *edgewise.Record)
	// Retry loads the versions of a model that failed to load again. It returns at once.
	Retry(name string)
	// Settle waits until nothing is loading or unloading for a model, and returns the first failure.
	Settle(ctx context.Context, name string) error
	// Withdraw unloads a model that Show or Serve made known and deletes what is imported of it.
	Withdraw(name string)
	// Records returns everything that is stored, by model name.
	Records() []*edgewise.Record
	// Load makes a model ready as it is stored, and waits for it. Errors: NotFound, and those of the load.
	Load(ctx context.Context, name string) error
	// Reconfigure makes a stored model ready with another configuration, given as JSON, and waits for it.
	Reconfigure(ctx context.Context, name string, config []byte) error
	// Unload stops serving a stored model. Errors: NotFound, Conflict.
	Unload(ctx context.Context, name string) error
	// Sweep deletes what is imported of a model, or of all for the empty name, and neither known nor loaded any more.
	Sweep(ctx context.Context, name string)
}

// Repositories are the model repositories: folders in Triton's layout, each of which feeds the registry. Its methods
// are safe for concurrent use.
type Repositories struct {
	config   config.Repository
	trees    []layout.Repository // distinct
	registry Registry
	defaults modelconfig.Defaults // of ensembles that cannot be loaded
	logger   *slog.Logger

	mu      sync.Mutex // guards what follows, and the fields of each source
	models  map[string]*source
	loading bool // the models that are wanted at the start are not there yet
	missing bool // a folder could not be read at the start, nor since then
}

// source is one model that a repository has brought. A new one is made for each change.
type source struct {
	versions map[int64]*edgewise.Version // by public number, as they are to be served
	stamps   map[int64]string            // of their files, when they were stored
	kept     *kept                       // the configuration that came with the load; nil: the folder's
	leaving  []int64                     // versions of before that answer until these are ready
	wanted   bool
	asked    bool     // by its own name, not because an ensemble runs it
	steps    []string // models that it runs
	failed   bool     // the last load did not end well
	stopped  bool     // it was unloaded because a model that it runs was
	states   []edgewise.Status
}

// New makes the repositories in trees, of which those in the same place are one, followed as c says. defaults are what
// holds for what ensembles leave open.
func New(
	c config.Repository, trees []layout.Repository, r Registry, defaults modelconfig.Defaults, logger *slog.Logger,
) *Repositories {
	s := &Repositories{config: c, registry: r, defaults: defaults, logger: logger, models: map[string]*source{}}
	for _, tree := range trees {
		if !slices.ContainsFunc(s.trees, func(t layout.Repository) bool { return t.Place == tree.Place }) {
			s.trees = append(s.trees, tree)
		}
	}
	s.loading = s.enabled()
	return s
}

// enabled tells whether there are repositories at all.
func (s *Repositories) enabled() bool { return len(s.trees) > 0 }

// controllable returns nil when clients may load and unload models. Its words are Triton's.
func (s *Repositories) controllable() error {
	if s.enabled() && s.config.ControlMode != config.ControlExplicit {
		return edgewise.Errorf("repository.Load", edgewise.Unavailable,
			"explicit model load / unload is not allowed if polling is enabled")
	}
	return nil
}

// folders lists the folders of a model, or of all for the empty name. A model that stands in several repositories has
// several. With an error come those of the repositories that could be read.
func (s *Repositories) folders(name string) (map[string][]layout.Folder, error) {
	found := map[string][]layout.Folder{}
	var problems []error
	for _, tree := range s.trees {
		folders, refused, err := tree.Folders()
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
func (s *Repositories) contents(name string) (*layout.Contents, error) {
	const op = "repository.Load"
	found, err := s.folders(name)
	switch {
	case err != nil:
		return nil, edgewise.Errorf(op,
			edgewise.Unavailable, "failed to load '%s', failed to poll from model repository: %w", name, err)
	case len(found[name]) == 0:
		return nil, edgewise.Errorf(op, edgewise.Invalid, "failed to load '%s', failed to poll from model repository", name)
	case len(found[name]) > 1:
		return nil, edgewise.Errorf(op,
			edgewise.Invalid, "failed to load '%s', failed to poll from model repository: %s", name, duplicateReason)
	}
	c, err := found[name][0].Contents(s.config.ConfigName)
	if err != nil {
		return nil, edgewise.Errorf(op,
			edgewise.Invalid, "failed to load '%s', failed to poll from model repository: %w", name, err)
	}
	return c, nil
}

const duplicateReason = "model appears in two or more repositories"

// has tells whether a repository has a model now, or has brought it.
func (s *Repositories) has(name string) bool {
	if s.brought(name) != nil {
		return true
	}
	found, _ := s.folders(name)
	return len(found[name]) > 0
}

func (s *Repositories) brought(name string) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models[name]
}

// record is the source in the form of a stored model. s.mu is held.
func (m *source) record(name string) *edgewise.Record {
	r := &edgewise.Record{Name: name, Wanted: m.wanted, Leaving: m.leaving}
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

// Start loads what is wanted from the beginning. It returns why models failed, when the box is not to run then.
func (s *Repositories) Start(ctx context.Context) error {
	if !s.enabled() {
		return nil
	}
	s.registry.Sweep(ctx, "") // what an earlier run brought: it is read again
	_, unread := s.folders("")
	err := errors.Join(unread, s.loadAll(ctx))
	s.mu.Lock()
	s.loading, s.missing = false, unread != nil
	s.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case s.config.ExitOnError && ctx.Err() == nil:
		return edgewise.Errorf("repository.Run", edgewise.KindOf(err), "failed to load all models: %w", err)
	}
	return nil
}

// atStart lists the models that are loaded from the beginning.
func (s *Repositories) atStart() ([]string, error) {
	wanted := s.config.LoadModels
	if s.config.ControlMode == config.ControlExplicit && !slices.Contains(wanted, "*") {
		return wanted, nil
	}
	if s.config.ControlMode == config.ControlExplicit && len(wanted) > 1 {
		return nil, edgewise.Errorf("repository.Run", edgewise.Invalid,
			"Wildcard model name '*' must be the ONLY startup model if specified at all.")
	}
	found, _ := s.folders("") // start tells of a folder that cannot be read
	return slices.Sorted(maps.Keys(found)), nil
}

// Initialized tells whether every repository could be read. As in Triton a box without one of them is not even live:
// an orchestrator starts it again, and polling finds the folder when it is back.
func (s *Repositories) Initialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.missing
}

func (s *Repositories) loadAll(ctx context.Context) error {
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

// Watch follows the repositories until ctx ends.
func (s *Repositories) Watch(ctx context.Context) {
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
