package appliance

import (
	"sync"

	"github.com/edgewise-ai/edgewise"
)

// phases tells those who follow a load that it has come to the warm-up. The zero value is ready.
type phases struct {
	mu        sync.Mutex // guards followers
	followers map[edgewise.ModelID]func()
}

// follow calls warming when the load of a version comes to its warm-up. forget ends that.
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

// warming says that a version is loaded and is being warmed up.
func (p *phases) warming(id edgewise.ModelID) {
	p.mu.Lock()
	follower := p.followers[id]
	p.mu.Unlock()
	if follower != nil {
		follower()
	}
}
