package repository

import (
	"context"
	"strings"
	"time"

	layout "github.com/edgewise-ai/edgewise/api/repository"
)

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
	found, err := s.folders("")
	if err != nil { // nothing is unloaded because a disk is away for a moment
		s.logger.Error("a model repository cannot be read", "error", err)
		return
	}
	s.mu.Lock()
	s.missing = false
	s.mu.Unlock()
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
		if seen := p.state(folders); seen != p.tried[name] {
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
	}
	for _, name := range begun {
		if err := s.settle(ctx, name); err != nil && ctx.Err() == nil {
			s.logger.Error("model failed to load", "model", name, "error", err)
		}
	}
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
