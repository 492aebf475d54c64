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
// not a model yet.
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
	for name, folders := range found {
		if ctx.Err() != nil {
			return
		}
		p.follow(ctx, name, folders)
	}
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

func (p *poller) follow(ctx context.Context, name string, folders []layout.Folder) {
	s := p.sources
	seen := p.state(folders)
	if seen == p.tried[name] {
		return
	}
	for range settleTries {
		timer := time.NewTimer(settleTime)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		before := seen
		if seen = p.state(folders); seen == before {
			break
		}
	}
	p.tried[name] = seen
	if len(folders) > 1 { // nobody can say which of them is meant
		s.logger.Error("model is unloaded: it appears in two or more repositories", "model", name)
		if err := s.unload(ctx, name, false); err != nil {
			s.logger.Error("model failed to unload", "model", name, "error", err)
		}
		return
	}
	if err := s.load(ctx, name, change{}); err != nil && ctx.Err() == nil {
		s.logger.Error("model failed to load", "model", name, "error", err)
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
		b.WriteString(f.Dir + c.Stamp())
	}
	return b.String()
}
