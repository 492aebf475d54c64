// Package cache is the response cache: an equal request is answered without another run. It stands in front of a
// version's queue: a hit is neither queued nor run.
package cache

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"math"
	"slices"
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

// key is a hash of the parts of a request that its response depends on. It is cryptographic: with two requests of one
// key a client could read the response to another client.
type key [sha256.Size]byte

// keyOf returns the key of a request to the version with a serial. The order of inputs does not matter; that of the
// requested outputs does: it is the order of the response.
func keyOf(serial uint64, req *edgewise.Request) key {
	w := writer{hash: sha256.New()}
	w.number(serial)
	w.number(uint64(len(req.Inputs)))
	for _, in := range slices.SortedFunc(slices.Values(req.Inputs),
		func(a, b edgewise.Tensor) int { return cmp.Compare(a.Name, b.Name) }) {
		w.text(in.Name)
		w.number(uint64(in.Type))
		w.number(uint64(len(in.Shape)))
		for _, n := range in.Shape {
			w.number(uint64(n))
		}
		w.number(uint64(len(in.Data)))
		_, _ = w.hash.Write(in.Data)
	}
	w.number(uint64(len(req.Outputs)))
	for _, name := range req.Outputs {
		w.text(name)
	}
	w.number(uint64(len(req.Parameters)))
	for _, name := range slices.Sorted(maps.Keys(req.Parameters)) {
		w.text(name)
		w.parameter(req.Parameters[name])
	}
	var k key
	w.hash.Sum(k[:0])
	return k
}

// writer feeds a hash so that different fields never give the same bytes: every text carries its length.
type writer struct {
	hash    hash.Hash
	scratch [8]byte
}

func (w *writer) number(n uint64) {
	binary.LittleEndian.PutUint64(w.scratch[:], n)
	_, _ = w.hash.Write(w.scratch[:])
}

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	_, _ = w.hash.Write([]byte(s))
}

func (w *writer) parameter(value any) {
	switch v := value.(type) {
	case string:
		w.text("s")
		w.text(v)
	case int64:
		w.text("i")
		w.number(uint64(v))
	case float64:
		w.text("f")
		w.number(math.Float64bits(v))
	case bool:
		w.text(fmt.Sprintf("b%t", v))
	default:
		w.text(fmt.Sprintf("%T %v", v, v))
	}
}
