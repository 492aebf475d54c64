package repository

import (
	"context"
	"errors"

	layout "github.com/edgewise-ai/edgewise/api/repository"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/observe"
)

// Source is one model repository: a folder, or a tree elsewhere.
type Source interface {
	// Tree returns the repository as it was seen last.
	Tree() layout.Repository
	// Refresh looks at it again. With an error the tree stays as it is.
	Refresh(ctx context.Context) error
	// Kept returns the repository as it was when its models became ready, for as long as it cannot be read.
	Kept() layout.Repository
	// Received is how many bytes of files the network has brought.
	Received() int64
	// Prune removes what was fetched and is in no folder that used is true of.
	Prune(used func(layout.Folder) bool)
}

// Folder is a Source whose files are read where they are.
type Folder struct{ layout.Repository }

// Tree returns the folder.
func (f Folder) Tree() layout.Repository { return f.Repository }

// Refresh does nothing: a folder is read when it is used.
func (Folder) Refresh(context.Context) error { return nil }

// Kept returns a repository without models.
func (f Folder) Kept() layout.Repository { return layout.Repository{Place: f.Place} }

// Received is 0: no network is there.
func (Folder) Received() int64 { return 0 }

// Prune does nothing.
func (Folder) Prune(func(layout.Folder) bool) {}

// refresh looks at all sources again. What cannot be read now stays as it was, and the log tells of it once.
func (s *Repositories) refresh(ctx context.Context) error {
	var problems []error
	for i, from := range s.sources {
		err := from.Refresh(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.tell(i, err)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// tell logs that a source cannot be read, or that it can again, when that changes.
func (s *Repositories) tell(i int, err error) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	s.mu.Lock()
	before := s.away[i]
	s.away[i] = said
	s.mu.Unlock()
	switch {
	case said == before:
	case err != nil:
		s.logger.Error("a model repository cannot be read: what it brought goes on", "error", err)
	default:
		s.logger.Info("a model repository can be read again", "repository", s.sources[i].Tree().Place)
	}
}

// States describes the model repositories that are not folders of this machine.
func (s *Repositories) States() (list []observe.Repository) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, from := range s.sources {
		if place := from.Tree().Place; config.IsRemote(place) {
			list = append(list, observe.Repository{Place: place, Up: s.away[i] == "", Received: from.Received()})
		}
	}
	return list
}

// prune removes what was fetched of models that are not wanted, unless a load is going on.
func (s *Repositories) prune() {
	if !s.fetching.TryLock() {
		return
	}
	defer s.fetching.Unlock()
	for _, from := range s.sources {
		present := map[string]bool{}
		folders, _, err := from.Tree().Folders()
		if err != nil {
			continue
		}
		for _, f := range folders {
			present[f.Name] = true
		}
		from.Prune(func(f layout.Folder) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if m := s.models[f.Name]; m != nil {
				return m.wanted || m.stopped
			}
			return present[f.Name] // it could not be fetched, or nobody has asked for it since the start
		})
	}
}

// instead returns the last good state of a model whose folder cannot be fetched, unless the model serves.
func (s *Repositories) instead(name string) (*found, bool) {
	if m := s.brought(name); m != nil && m.wanted && len(m.versions) > 0 {
		return nil, false
	}
	for _, from := range s.sources {
		folders, _, err := from.Kept().Folders()
		if err != nil {
			continue
		}
		for _, f := range folders {
			if f.Name != name {
				continue
			}
			if c, err := f.Contents(s.config.ConfigName); err == nil {
				return &found{c, f, true}, true
			}
		}
	}
	return nil, false
}

// found is what a repository has of a model.
type found struct {
	*layout.Contents
	folder layout.Folder
	behind bool // it is the last good state, because the present one cannot be fetched
}
