package tuned

import (
	"context"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/appliance/load"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// label is that of the version which is measured.
const label = "measured"

// Bounds of the requests in progress.
const (
	callers = 64  // that keep a version busy
	mostAsk = 256 // at a rate: further ones wait here
)

// bench measures stored versions of a model as a client.
type bench struct {
	client    *client.Client
	model     string
	versions  []int64 // by the value of the one axis
	request   edgewise.Request
	sequences bool
	turns     chan struct{} // one for each request in progress
}

// infer sends a request when there is room for it.
func (b *bench) infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	select {
	case b.turns <- struct{}{}:
		defer func() { <-b.turns }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return b.client.Infer(ctx, req)
}

// Quiet returns at once: no other client is there.
func (b *bench) Quiet(ctx context.Context) error { return ctx.Err() }

// Open has the box load a version, and warms it up.
func (b *bench) Open(ctx context.Context, c search.Candidate) (search.Session, error) {
	id := edgewise.ModelID{Name: b.model, Version: b.versions[c.At(0)]}
	if _, err := b.client.Promote(ctx, b.model, label, id.Version); err != nil {
		return nil, &search.Excluded{Reason: err.Error()}
	}
	r := b.request
	r.Model = id
	s := &session{load.Source{Infer: b.infer, Samples: []*edgewise.Request{&r}, Sequences: b.sequences}}
	if err := s.source.Send(ctx); err != nil {
		return nil, &search.Excluded{Reason: err.Error()}
	}
	search.Warm(ctx, &s.source, callers)
	return s, ctx.Err()
}

// session is a version that is loaded.
type session struct{ source load.Source }

// Saturate has clients wait for their answers before they ask again.
func (s *session) Saturate(ctx context.Context, d time.Duration) (search.Estimate, error) {
	return search.Saturate(ctx, &s.source, callers, d)
}

// Offer sends requests at a rate.
func (s *session) Offer(ctx context.Context, rate float64, d time.Duration, round int) (search.Point, error) {
	return search.Offer(ctx, &s.source, rate, d, round)
}

// Memory is not compared.
func (s *session) Memory() int64 { return 0 }

// Close leaves the version loaded until the next one is.
func (s *session) Close() {}

// search has a candidate for each version. The first one is the current configuration.
func (b *bench) search(o search.Objective, limit time.Duration, versions ...int64) search.Search {
	b.versions = versions
	return search.Search{
		Axes: []search.Axis{{Name: "version", Values: make([]string, len(versions))}}, Objective: o, Bench: b, Limit: limit,
	}
}

// candidate names a version of the latest search.
func (b *bench) candidate(version int64) search.Candidate {
	return search.Candidate([]byte{byte(slices.Index(b.versions, version))})
}
