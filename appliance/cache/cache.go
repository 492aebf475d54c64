// Package cache keeps answers, so that a request that has been answered is not run again. It stands in front of a
// version's queue: a hit neither waits nor runs.
package cache

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
)

// entryOverhead is what an answer costs beside its bytes: its key, its place in the order, its tensors' names and
// shapes.
const entryOverhead = 1024

// Cache holds the answers of many versions within one bound; those that were asked for longest ago go first. It is safe
// for concurrent use.
type Cache struct {
	limit   int64
	serials atomic.Uint64 // the last that was given to a version

	mu      sync.Mutex // guards what follows
	entries map[key]*list.Element
	recent  *list.List // of *entry, the last asked for in front
	bytes   int64
	evicted uint64
}

// entry is one answer. Its outputs are never changed; whoever was given them may read them after they were evicted.
type entry struct {
	key        key
	owner      *Servable
	outputs    []edgewise.Tensor
	parameters map[string]any
	bytes      int64
}

// Usage is how full the cache is.
type Usage struct {
	Bytes, Limit int64
	Entries      int
	Evicted      uint64 // entries that had to make room, since the start
}

// New makes a cache of at most limit bytes. With a limit of 0 it holds nothing.
func New(limit int64) *Cache {
	return &Cache{limit: limit, entries: map[key]*list.Element{}, recent: list.New()}
}

// Usage returns how full the cache is.
func (c *Cache) Usage() Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Usage{Bytes: c.bytes, Limit: c.limit, Entries: len(c.entries), Evicted: c.evicted}
}

// get returns the answer to a key, nil when there is none.
func (c *Cache) get(k key) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[k]
	if at == nil {
		return nil
	}
	c.recent.MoveToFront(at)
	return at.Value.(*entry)
}

// put keeps an answer, unless it is larger than the whole cache, its owner has been closed, or the key has one already.
func (c *Cache) put(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.bytes > c.limit || e.owner.closed || c.entries[e.key] != nil {
		return
	}
	for c.bytes+e.bytes > c.limit {
		c.remove(c.recent.Back())
		c.evicted++
	}
	c.entries[e.key] = c.recent.PushFront(e)
	c.bytes += e.bytes
}

// drop removes every answer of a version, and keeps none that comes later.
func (c *Cache) drop(owner *Servable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	owner.closed = true
	for at := c.recent.Front(); at != nil; {
		next := at.Next()
		if at.Value.(*entry).owner == owner {
			c.remove(at)
		}
		at = next
	}
}

// remove forgets an entry. The lock is held.
func (c *Cache) remove(at *list.Element) {
	e := c.recent.Remove(at).(*entry)
	delete(c.entries, e.key)
	c.bytes -= e.bytes
}
