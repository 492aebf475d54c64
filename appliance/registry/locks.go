package registry

import (
	"context"
	"fmt"
	"sync"
)

// locks is one lock for each name in use. Names that nobody holds or waits for take no memory.
type locks struct {
	mu   sync.Mutex // guards held
	held map[string]*nameLock
}

type nameLock struct {
	token chan struct{} // holds one token while the name is locked
	users int           // holders and waiters
}

func newLocks() *locks { return &locks{held: map[string]*nameLock{}} }

// lock waits for a name and returns the function that unlocks it, or ctx's error.
func (l *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
	n := l.join(name)
	if ctx.Err() == nil { // else the select could choose the token all the same
		select {
		case n.token <- struct{}{}:
			return func() {
				<-n.token
				l.leave(name, n)
			}, nil
		case <-ctx.Done():
		}
	}
	l.leave(name, n)
	return nil, fmt.Errorf("model %q is being changed by another caller: %w", name, ctx.Err())
}

func (l *locks) join(name string) *nameLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.held[name]
	if n == nil {
		n = &nameLock{token: make(chan struct{}, 1)}
		l.held[name] = n
	}
	n.users++
	return n
}

func (l *locks) leave(name string, n *nameLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(l.held, name)
	}
}
