package cache

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ordering"
	"github.com/edgewise-ai/edgewise/picture"
)

// Servable answers requests from the cache, and passes those without an entry to a version.
type Servable struct {
	next    edgewise.Servable
	version *edgewise.Version
	cache   *Cache
	serial  uint64          // of this load: entries of another load of the version are not used
	order   *ordering.Order // nil: responses are not ordered
	closed  bool            // guarded by the cache's mutex

	mu        sync.Mutex // guards what follows
	hit, miss edgewise.Duration
	last      time.Time // of the last hit
}

var _ edgewise.Servable = (*Servable)(nil)

// Wrap puts the cache in front of a loaded version, which the Servable owns from then on.
func (c *Cache) Wrap(v *edgewise.Version, next edgewise.Servable) *Servable {
	s := &Servable{next: next, version: v, cache: c, serial: c.serials.Add(1)}
	if b := v.Model.DynamicBatching; b != nil && b.PreserveOrdering {
		s.order = &ordering.Order{}
	}
	return s
}

// Infer answers from the cache, or passes the request on and keeps the response. Requests of a sequence are passed on:
// their responses depend on earlier ones. With preserve_ordering a response waits for those to earlier requests.
func (s *Servable) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	if s.order == nil {
		return s.infer(ctx, req)
	}
	place := s.order.NewPlace()
	place.Take()
	defer place.Leave()
	response, err := s.infer(ctx, req)
	ordering.Queued(ctx) // responses are ordered
	if waiting := place.Wait(ctx); waiting != nil && err == nil {
		response.Release()
		return nil, edgewise.Errorf("cache.Infer", edgewise.KindOf(waiting), "model %q: waiting for the answers to earlier "+
			"requests: %w", s.version.ID.Name, waiting)
	}
	return response, err
}

func (s *Servable) infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	if req.Sequence.Active() {
		return s.next.Infer(ctx, req)
	}
	start := time.Now()
	for i := range req.Inputs {
		picture.Settle(&req.Inputs[i])
	}
	k := keyOf(s.serial, req)
	if e := s.cache.get(k); e != nil {
		s.count(&s.hit, time.Since(start), true)
		return &edgewise.Response{
			ID: req.ID, Model: s.version.ID, Outputs: slices.Clone(e.outputs),
			Parameters: maps.Clone(e.parameters),
		}, nil
	}
	looked := time.Since(start)
	response, err := s.next.Infer(ctx, req)
	if err != nil {
		return nil, err
	}
	start = time.Now()
	s.cache.put(s.entryOf(k, response))
	s.count(&s.miss, looked+time.Since(start), false)
	return response, nil
}

// entryOf copies a response, whose outputs are borrowed. A response larger than the cache is not copied, and put
// refuses its entry.
func (s *Servable) entryOf(k key, r *edgewise.Response) *entry {
	e := &entry{key: k, owner: s, bytes: entryOverhead}
	for _, out := range r.Outputs {
		e.bytes += int64(len(out.Data))
	}
	if e.bytes > s.cache.limit {
		return e
	}
	e.parameters = maps.Clone(r.Parameters)
	e.outputs = slices.Clone(r.Outputs)
	for i, out := range r.Outputs {
		picture.Settle(&out)
		e.outputs[i].Pictures = nil
		e.outputs[i].Shape, e.outputs[i].Data = slices.Clone(out.Shape), slices.Clone(out.Data)
	}
	return e
}

func (s *Servable) count(d *edgewise.Duration, took time.Duration, hit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Count++
	d.Total += took
	if hit {
		s.last = time.Now()
	}
}

// Statistics returns the statistics of the version. Hits count as successful requests, as in the inference protocol.
func (s *Servable) Statistics() edgewise.Statistics {
	st := s.next.Statistics()
	s.mu.Lock()
	defer s.mu.Unlock()
	st.CacheHit, st.CacheMiss = s.hit, s.miss
	st.Success.Count += s.hit.Count
	st.Success.Total += s.hit.Total
	st.Queue.Count += s.hit.Count
	if s.last.After(st.LastInference) {
		st.LastInference = s.last
	}
	return st
}

// Close removes the version's entries and closes it.
func (s *Servable) Close() error {
	s.cache.drop(s)
	return s.next.Close()
}
