// Package cache is the response cache: an equal request is answered without another run. It stands in front of a
// version's queue: a hit is neither queued nor run.
package cache

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise"
)

// entryOverhead is the bytes counted for an entry beside its outputs: its key, its place in the list, names and shapes.
const entryOverhead = 1024

// Cache holds responses of many versions within one bound; the least recently used are evicted first. It is safe for
// concurrent use.
type Cache struct {
	limit   int64
	serials atomic.Uint64 // the last serial of a version

	mu      sync.Mutex // guards what follows
	entries map[key]*list.Element
	recent  *list.List // of *entry, the most recently used in front
	bytes   int64
	evicted uint64
}

// entry is one response. Its outputs are never changed; they may be read after the entry is evicted.
type entry struct {
	key        key
	owner      *Servable
	outputs    []edgewise.Tensor
	parameters map[string]any
	bytes      int64
}

// Usage is the memory that the cache uses.
type Usage struct {
	Bytes, Limit int64
	Entries      int
	Evicted      uint64 // entries evicted since the start
}

// New makes a cache of at most limit bytes. With a limit of 0 it holds nothing.
func New(limit int64) *Cache {
	return &Cache{limit: limit, entries: map[key]*list.Element{}, recent: list.New()}
}

// Usage returns the present usage.
func (c *Cache) Usage() Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Usage{Bytes: c.bytes, Limit: c.limit, Entries: len(c.entries), Evicted: c.evicted}
}

// get returns the entry of a key, or nil.
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

// put adds an entry, unless it is larger than the whole cache, its owner is closed, or the key has an entry.
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

// drop removes all entries of a version, and makes put refuse later ones.
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
