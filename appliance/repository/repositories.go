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

// Registry is what repositories need of the models that are stored and served. registry.Registry describes the methods,
// which are safe for concurrent use.
type Registry interface {
	Lock(ctx context.Context, name string) (unlock func(), err error)
	Lookup(name string) *edgewise.Record
	Uploaded(name string) bool
	Import(ctx context.Context, up edgewise.Upload) (*edgewise.Version, error)
	Hold(name string) (release func())
	Show(r *edgewise.Record)
	Serve(r *edgewise.Record)
	Retry(name string)
	Settle(ctx context.Context, name string) error
	Withdraw(name string)
	Records() []*edgewise.Record
	Load(ctx context.Context, name string) error
	Reconfigure(ctx context.Context, name string, config []byte) error
	Unload(ctx context.Context, name string) error
	Sweep(ctx context.Context, name string)
}

// Repositories are the model repositories: trees in Triton's layout, each of which feeds the registry. Its methods
// are safe for concurrent use.
type Repositories struct {
	config   config.Repository
	sources  []Source // in distinct places
	registry Registry
	defaults modelconfig.Defaults // of ensembles that cannot be loaded
	logger   *slog.Logger
	fetching sync.RWMutex // held to load models, and to remove what was fetched of them

	mu      sync.Mutex // guards what follows, and the fields of each source
	models  map[string]*source
	loading bool            // the models that are wanted at the start are not there yet
	missing bool            // a folder could not be read at the start, nor since then
	away    map[int]string  // why a source cannot be read, by its index
	gone    map[string]bool // names of models that served until their folder went, at most maxGone
}

// maxGone bounds the names that are known of models that have gone. One too many makes all of them unknown.
const maxGone = 1024

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
	behind   bool          // its repository has a newer state, which could not be fetched
	folder   layout.Folder // that it was read from
}

// New makes the repositories that c names, of which those in the same place are one, followed as c says. open makes the
// source of a URL. defaults are what holds for what ensembles leave open.
func New(
	c config.Repository, open func(url string) Source, r Registry, defaults modelconfig.Defaults, logger *slog.Logger,
) *Repositories {
	s := &Repositories{
		config: c, registry: r, defaults: defaults, logger: logger,
		models: map[string]*source{}, gone: map[string]bool{}, away: map[int]string{},
	}
	for _, place := range c.Folders {
		var from Source
		if config.IsRemote(place) {
			from = open(place)
		} else {
			tree := layout.Dir(place, defaults.Formats.Files()...)
			tree.Model = c.Name
			from = Folder{tree}
		}
		if !slices.ContainsFunc(s.sources, func(other Source) bool { return other.Tree().Place == from.Tree().Place }) {
			s.sources = append(s.sources, from)
		}
	}
	s.loading = s.enabled()
	return s
}

// enabled tells whether there are repositories at all.
func (s *Repositories) enabled() bool { return len(s.sources) > 0 }

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
	for _, from := range s.sources {
		folders, refused, err := from.Tree().Folders()
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
func (s *Repositories) contents(name string) (*found, error) {
	const op = "repository.Load"
	all, err := s.folders(name)
	switch {
	case err != nil:
		return nil, edgewise.Errorf(op,
			edgewise.Unavailable, "failed to load '%s', failed to poll from model repository: %w", name, err)
	case len(all[name]) == 0:
		return nil, edgewise.Errorf(op, edgewise.Invalid,
			"failed to load '%s', failed to poll from model repository: model not found in any model repository", name)
	case len(all[name]) > 1:
		return nil, edgewise.Errorf(op,
			edgewise.Invalid, "failed to load '%s', failed to poll from model repository: %s", name, duplicateReason)
	}
	c, err := all[name][0].Contents(s.config.ConfigName)
	if err != nil {
		return nil, edgewise.Errorf(op,
			edgewise.Invalid, "failed to load '%s', failed to poll from model repository: %w", name, err)
	}
	return &found{Contents: c, folder: all[name][0]}, nil
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
	away := s.refresh(ctx)
	_, unread := s.folders("")
	if unread != nil && away != nil {
		unread = away // it says why
	}
	err := errors.Join(unread, s.loadAll(ctx))
	s.prune()
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

// poller follows the repositories' folders.
type poller struct {
	sources *Repositories
	tried   map[string]string // the state of each model's folder that was loaded last, or failed to
}

// How long a folder has to stand still before it is loaded, and how often that is looked at: a copy in progress is
// not a model yet. Folders that have changed are waited for together.
const (
	settleTime  = 200 * time.Millisecond
	settleTries = 25
)

// look loads what has changed and unloads what has gone.
func (p *poller) look(ctx context.Context) {
	s := p.sources
	_ = s.refresh(ctx) // it has told of what cannot be read
	found, err := s.folders("")
	if err != nil { // nothing is unloaded because a disk is away for a moment
		s.logger.Error("a model repository cannot be read", "error", err)
		return
	}
	s.mu.Lock()
	s.missing = false
	s.mu.Unlock()
	defer s.prune()
	moving := p.changed(found)
	for try := 0; try < settleTries && len(moving) > 0; try++ {
		select {
		case <-time.After(settleTime):
		case <-ctx.Done():
			return
		}
		p.follow(ctx, p.takeStill(&moving))
	}
	p.follow(ctx, moving)
	for name := range p.tried {
		if len(found[name]) > 0 {
			continue
		}
		delete(p.tried, name)
		s.logger.Info("the model's folder has gone", "model", name)
		if err := s.forget(ctx, name); err != nil {
			s.logger.Error("model failed to unload", "model", name, "error", err)
		}
	}
}

// changedModel is a model whose folders have changed, and the state in which they were seen last.
type changedModel struct {
	name    string
	folders []layout.Folder
	seen    string
}

func (p *poller) changed(found map[string][]layout.Folder) []changedModel {
	var list []changedModel
	for name, folders := range found {
		if seen := p.state(folders); seen != p.tried[name] || p.sources.isBehind(name) {
			list = append(list, changedModel{name, folders, seen})
		}
	}
	return list
}

// takeStill removes from moving the models whose folders have not changed since they were seen last, and returns them.
func (p *poller) takeStill(moving *[]changedModel) (still []changedModel) {
	rest := (*moving)[:0]
	for _, m := range *moving {
		before := m.seen
		if m.seen = p.state(m.folders); m.seen == before {
			still = append(still, m)
		} else {
			rest = append(rest, m)
		}
	}
	*moving = rest
	return still
}

// follow begins to load models, and then waits for all of them.
func (p *poller) follow(ctx context.Context, list []changedModel) {
	s := p.sources
	var begun []string
	for _, m := range list {
		if ctx.Err() != nil {
			return
		}
		p.tried[m.name] = m.seen
		var err error
		if len(m.folders) > 1 { // nobody can say which of them is meant
			s.logger.Error("model is unloaded: it appears in two or more repositories", "model", m.name)
			err = s.unload(ctx, m.name, false)
		} else if err = s.begin(ctx, m.name, change{}); err == nil {
			begun = append(begun, m.name)
		}
		if err != nil {
			s.logger.Error("a change of a model's folder cannot be followed", "model", m.name, "error", err)
		}
		if _, ok := errors.AsType[*unfetchedError](err); ok { // it may be fetched next time
			delete(p.tried, m.name)
		}
	}
	for _, name := range begun {
		if err := s.settle(ctx, name); err != nil && ctx.Err() == nil {
			s.logger.Error("model failed to load", "model", name, "error", err)
		}
	}
}

// isBehind tells whether a model serves an older state than its repository has.
func (s *Repositories) isBehind(name string) bool {
	m := s.brought(name)
	return m != nil && m.behind
}

// state tells apart what folders hold.
func (p *poller) state(folders []layout.Folder) string {
	var b strings.Builder
	for _, f := range folders {
		c, err := f.Contents(p.sources.config.ConfigName)
		if err != nil {
			return err.Error()
		}
		b.WriteString(f.Place() + c.Stamp())
	}
	return b.String()
}
