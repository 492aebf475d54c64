package serving

import (
	"sync"

	"github.com/edgewise-ai/edgewise"
)

// phases tells the followers of a load that its warm-up begins. The zero value is ready.
type phases struct {
	mu        sync.Mutex // guards followers
	followers map[edgewise.ModelID]func()
}

// Follow calls warming when the warm-up of a version that is being loaded begins, until forget is called.
func (l *Loader) Follow(id edgewise.ModelID, warming func()) (forget func()) {
	return l.phases.follow(id, warming)
}

func (p *phases) follow(id edgewise.ModelID, warming func()) (forget func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.followers == nil {
		p.followers = map[edgewise.ModelID]func(){}
	}
	p.followers[id] = warming
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.followers, id)
	}
}

// warming tells the follower of a version that its warm-up begins.
func (p *phases) warming(id edgewise.ModelID) {
	p.mu.Lock()
	follower := p.followers[id]
	p.mu.Unlock()
	if follower != nil {
		follower()
	}
}
