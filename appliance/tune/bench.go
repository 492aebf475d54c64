package tune

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/idle"
	"github.com/edgewise-ai/edgewise/appliance/load"
	"github.com/edgewise-ai/edgewise/appliance/loopback"
	"github.com/edgewise-ai/edgewise/appliance/measure"
	"github.com/edgewise-ai/edgewise/appliance/tune/search"
)

// How the machine is shared with clients.
const (
	leastQuiet = 2 * time.Second  // without a request of a client before something is measured; doubled each time that was too short
	mostQuiet  = 10 * time.Minute // after which no such time is needed any more
)

// bench measures the candidates of one model, one at a time. It is closed.
type bench struct {
	*Tuner
	id      edgewise.ModelID
	model   *edgewise.Model
	plan    *plan
	samples []*edgewise.Request
	rules   []admin.CompareRule
	answers [][]edgewise.Tensor // of the current configuration
	origin  string
	waiting func(bool) // told while clients need the machine
	energy  Energy     // nil: the objective does not look at it
	sender  *loopback.Loopback

	kept     []*loaded // parts of the candidate that was loaded last
	quiet    time.Duration
	arranged time.Duration // that it took to load the current configuration first
}

// Quiet waits until no client has sent a request for some time. The time doubles whenever it was too short.
func (b *bench) Quiet(ctx context.Context) error {
	if b.config.Idle.Since() < b.quiet {
		b.release(nil) // clients may need the memory, too
		b.waiting(true)
		defer b.waiting(false)
	}
	return b.config.Idle.Quiet(ctx, b.quiet)
}

// close ends the bench.
func (b *bench) close() {
	b.release(nil)
	if err := b.sender.Close(); err != nil {
		b.config.Logger.Warn("requests of a tuning did not end", "model", b.id.String(), "error", err)
	}
}

// guard returns a context that ends when a client sends a request, with the cause idle.ErrTraffic.
func (b *bench) guard(ctx context.Context) (guarded context.Context, stop func()) {
	guarded, end := b.config.Idle.Guard(ctx)
	return guarded, func() {
		end()
		if errors.Is(context.Cause(guarded), idle.ErrTraffic) {
			b.quiet = min(2*b.quiet, mostQuiet)
		}
	}
}

// Open loads a candidate beside what serves, and compares its answers with those of the current configuration.
func (b *bench) Open(ctx context.Context, of search.Candidate) (search.Session, error) {
	c, err := b.load(ctx, of)
	if err != nil {
		return nil, err
	}
	b.sender.Serve(&c.model)
	s := &session{bench: b, candidate: c, source: load.Source{
		Infer: b.sender.Infer, Samples: b.samples, Sequences: c.sequences,
	}}
	guarded, stop := b.guard(ctx)
	defer stop()
	if err := s.compare(guarded); err != nil {
		s.Close()
		if guarded.Err() != nil {
			err = context.Cause(guarded)
		}
		return nil, err
	}
	return s, nil
}

// excluded is an error of one candidate.
func excluded(err error) error { return &search.Excluded{Reason: shorten(err.Error())} }

// maxReason bounds the text that says why a candidate was not chosen, in bytes.
const maxReason = 300

func shorten(text string) string {
	if len(text) <= maxReason {
		return text
	}
	cut := maxReason
	for cut > 0 && text[cut]&0xc0 == 0x80 { // at a character
		cut--
	}
	return text[:cut] + " …"
}

// session is a candidate that is loaded.
type session struct {
	*bench
	source    load.Source
	candidate *candidate
	warmed    bool
}

// warm warms the candidate before its first measurement: what Open sends tells how long each step takes for one request.
func (s *session) warm(ctx context.Context) {
	if !s.warmed {
		search.Warm(ctx, &s.source, s.candidate.callers(s.config.Cores))
		s.warmed = true
	}
}

// Saturate offers more requests than it can answer.
func (s *session) Saturate(ctx context.Context, d time.Duration) (search.Estimate, error) {
	guarded, stop := s.guard(ctx)
	defer stop()
	s.warm(guarded)
	return search.Saturate(guarded, &s.source, s.candidate.callers(s.config.Cores), d)
}

// Offer sends requests at a rate.
func (s *session) Offer(ctx context.Context, rate float64, d time.Duration, round int) (p search.Point, err error) {
	guarded, stop := s.guard(ctx)
	defer stop()
	s.warm(guarded)
	offer := func() { p, err = search.Offer(guarded, &s.source, rate, d, round) }
	if s.energy == nil {
		offer()
	} else if joules, unread := metered(guarded, s.energy, offer); err == nil {
		p.Energy, err = joules/float64(max(p.Requests, 1)), unread
	}
	return p, err
}

// Memory is what its processes take.
func (s *session) Memory() int64 { return s.candidate.takes() }

// Close ends it. Its parts stay loaded for the next candidate, see bench.release.
func (s *session) Close() {
	s.sender.Serve(nil)
	if e := s.candidate.ensemble; e != nil {
		_ = e.Close() // it waits for requests, and nothing can fail
	}
}

// ask sends one sample, and returns a copy of the answer.
func (s *session) ask(ctx context.Context, sample *edgewise.Request) (outputs []edgewise.Tensor, err error) {
	req := *sample
	if s.source.Sequences {
		req.Sequence = edgewise.Sequence{ID: s.source.Next(), Start: true, End: true}
	}
	resp, err := s.source.Infer(ctx, &req)
	if err != nil {
		return nil, err
	}
	defer resp.Release()
	for _, t := range resp.Outputs {
		t.Data, t.Shape = slices.Clone(t.Data), slices.Clone(t.Shape)
		outputs = append(outputs, t)
	}
	return outputs, nil
}

// compare has the candidate answer all samples. The first one is the current configuration, whose answers are kept.
func (s *session) compare(ctx context.Context) error {
	if s.samples == nil {
		return s.refer(ctx)
	}
	for i, sample := range s.samples {
		got, err := s.ask(ctx, sample)
		if err != nil {
			return excluded(err)
		}
		if err := measure.Alike(s.rules, s.answers[i], got); err != nil {
			return &search.Excluded{Reason: shorten(err.Error()), Wrong: true}
		}
	}
	return nil
}

// refer chooses the samples and keeps the answers of the current configuration. Both are an error where a model answers
// otherwise from run to run: then nothing could be compared.
func (s *session) refer(ctx context.Context) error {
	samples, answers, err := s.choose(ctx)
	if err != nil {
		return err
	}
	for i, sample := range samples {
		again, err := s.ask(ctx, sample)
		if err != nil {
			return err
		}
		if err := measure.Alike(s.rules, answers[i], again); err != nil {
			return edgewise.Errorf("tune.refer", edgewise.Unsupported, "model %v cannot be tuned: it answers the same request "+
				"differently from run to run, so nothing could be compared: %w", s.id, err)
		}
	}
	s.bench.samples, s.bench.answers, s.source.Samples = samples, answers, samples
	return nil
}

// choose returns requests that the model answers, and its answers.
func (s *session) choose(ctx context.Context) (samples []*edgewise.Request, answers [][]edgewise.Tensor, err error) {
	chosen, err := s.config.Known.Choose(ctx, s.model, s.id, func(ctx context.Context, r *edgewise.Request) error {
		answer, err := s.ask(ctx, r)
		if err == nil {
			answers = append(answers, answer)
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case err != nil:
		return nil, nil, edgewise.Errorf("tune.choose", edgewise.KindOf(err), "model %v cannot be tuned: %w", s.id, err)
	}
	s.rules, s.origin = chosen.Rules, chosen.Origin
	return chosen.Requests, answers, nil
}
