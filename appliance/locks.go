package appliance

import "sync"

// locks is one lock for each name in use. Names that nobody holds or waits for take no memory.
type locks struct {
	mu   sync.Mutex // guards held
	held map[string]*nameLock
}

type nameLock struct {
	mu    sync.Mutex
	users int // holders and waiters
}

func newLocks() *locks { return &locks{held: map[string]*nameLock{}} }

// lock waits for a name and returns the function that unlocks it.
func (l *locks) lock(name string) (unlock func()) {
	l.mu.Lock()
	n := l.held[name]
	if n == nil {
		n = &nameLock{}
		l.held[name] = n
	}
	n.users++
	l.mu.Unlock()
	n.mu.Lock()
	return func() {
		n.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if n.users--; n.users == 0 {
			delete(l.held, name)
		}
	}
}
