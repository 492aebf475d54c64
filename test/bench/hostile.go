package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/hostile"
)

const (
	hostileRun   = 50 * time.Millisecond // that a guest may run
	hostilePace  = 50 * time.Millisecond // between two calls of hostile modules, while the other model's tail is measured
	hostileTraps = 100_000               // with as many threads as cores; fewer otherwise
	victimPace   = 20 * time.Millisecond // between two requests to the model beside them
	tailPairs    = 4                     // of windows, with and without hostile calls, for each round
	tailWindow   = 2 * time.Second
)

// hostileFigures sends the corpus of hostile modules to a box on a number of the runtime's threads, whose collector
// runs all the time, while a model is under load.
func hostileFigures(procs int) func(*run) {
	return func(r *run) {
		s := &siege{run: r, procs: procs, pairs: tailPairs * r.rounds, traps: hostileTraps}
		if procs != 2 {
			s.traps = hostileTraps / 5
		}
		s.begin()
		r.check(s.proceed(context.Background()))
		s.figures()
	}
}

// siege is a box, what is done to it, and what came of it.
type siege struct {
	*run
	procs, pairs, traps int
	box                 *box
	attack              *hostile.Attack
	clients             *callers // of the model beside them
	rate                float64  // of its arrivals

	refused, accepted, called, paused, trapped int
	stops                                      []hostile.Stop
	before, middle, after                      hostile.State
	quiet                                      [2]perf.Histogram // of the model beside them, even and odd windows
	beside                                     perf.Histogram    // of the same while hostile modules are called
	victims, lost                              atomic.Int64
}

// begin starts the box with a model in it.
func (s *siege) begin() {
	modules, err := hostile.Read("wasm/testdata/hostile")
	s.check(err)
	environment := []string{fmt.Sprintf("GOMAXPROCS=%d", s.procs), "GOGC=5"}
	s.box = s.startBuild(builtProgram, anywhere, environment, filepath.Join(s.dir, "data"),
		"wasm.run_timeout="+hostileRun.String())
	s.attack = &hostile.Attack{Client: s.box.client, RunTimeout: hostileRun, Modules: modules}
	clients, full := s.mobileNet(s.box, crashClients)
	s.clients, s.rate = clients, crashLoad*full
}

// proceed does everything, and looks at the box before and after.
func (s *siege) proceed(ctx context.Context) (err error) {
	url := "http://" + s.box.address
	if s.before, err = hostile.Look(ctx, url); err != nil {
		return err
	}
	if err := s.loaded(func() error { return s.harm(ctx) }); err != nil {
		return fmt.Errorf("%w; the box says: %s", err, s.box.errors.String())
	}
	if err := s.tails(); err != nil {
		return err
	}
	if err := s.loaded(func() error { return s.trap(ctx, url) }); err != nil {
		return err
	}
	if err := s.attack.Remove(ctx); err != nil {
		return err
	}
	s.box.client.Close()
	s.after, err = hostile.Settled(ctx, url, s.before, 5*time.Second)
	return err
}

// harm uploads the corpus and calls what is accepted; what does not end twice at a time.
func (s *siege) harm(ctx context.Context) (err error) {
	if s.refused, s.accepted, err = s.attack.Upload(ctx); err != nil {
		return err
	}
	for range 2 {
		failed, paused, stops, err := s.attack.CallAll(ctx)
		s.called, s.paused, s.stops = s.called+failed, s.paused+paused, append(s.stops, stops...)
		if err != nil {
			return err
		}
	}
	stops, err := s.attack.Runaways(ctx, 1)
	s.called, s.stops = s.called+len(stops), append(s.stops, stops...)
	return errors.Join(err, s.attack.Prepare(ctx))
}

// tails measures the model beside them with and without hostile calls, in short windows in turn, so that both sides see
// the same machine. Both windows of a pair have the same arrivals, and every other pair begins with the other side.
func (s *siege) tails() error {
	for pair := range s.pairs {
		for turn := range 2 {
			latencies, disturb := &s.quiet[pair%2], func(context.Context) error { return nil }
			if hostileTurn := (pair+turn)%2 == 1; hostileTurn {
				latencies, disturb = &s.beside, func(ctx context.Context) error { return s.attack.Pace(ctx, hostilePace) }
			}
			w, err := whileDoing(disturb, func() (perf.Step, error) { return s.clients.arrivals(s.rate, tailWindow, uint64(pair)) })
			if err != nil {
				return err
			}
			latencies.Merge(w.Latencies)
			s.lost.Add(int64(w.Failed))
			s.victims.Add(int64(w.Requests))
		}
	}
	return nil
}

// trap fails most requests after a look at the memory, which the first of them have made as large as it gets.
func (s *siege) trap(ctx context.Context, url string) error {
	first, err := s.attack.Traps(ctx, s.traps/10)
	if err != nil {
		return err
	}
	if s.middle, err = hostile.Look(ctx, url); err != nil {
		return err
	}
	rest, err := s.attack.Traps(ctx, s.traps-s.traps/10)
	s.trapped = first + rest
	return err
}

// loaded does something while requests are sent to the model beside them.
func (s *siege) loaded(do func() error) error {
	ctx, end := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		for ticks := time.NewTicker(victimPace); ctx.Err() == nil; <-ticks.C {
			s.victims.Add(1)
			if s.box.infer("model", noise(picture), nil) != nil {
				s.lost.Add(1)
			}
		}
	})
	err := do()
	end()
	work.Wait()
	return err
}

func (s *siege) figures() {
	slices.SortFunc(s.stops, func(a, b hostile.Stop) int { return cmp.Compare(a.Late, b.Late) })
	latest, of := s.stops[len(s.stops)-1], len(s.stops)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	threads := fmt.Sprintf("hostile modules, GOMAXPROCS %d: ", s.procs)
	p99 := func(h *perf.Histogram) float64 { return ms(h.Quantile(0.99)) }
	even, odd := p99(&s.quiet[0]), p99(&s.quiet[1])
	s.quiet[0].Merge(&s.quiet[1])
	quiet := &s.quiet[0]
	change := 100 * (p99(&s.beside)/p99(quiet) - 1)
	growth := "from 10 % of the traps on"
	s.report(
		atMost(threads+"failed requests to another model", float64(s.lost.Load()), 0, "",
			fmt.Sprintf("%d requests; %d modules refused, %d accepted, called %d times, paused %d times; the box did not end",
				s.victims.Load(), s.refused, s.accepted, s.called, s.paused)),
		atMost(threads+"latest stop after its limit", ms(latest.Late), 20, "ms",
			fmt.Sprintf("%s; %d stops, up to two at once, seen by the client; median %.2f ms, p90 %.2f ms", latest.Module, of,
				ms(s.stops[of/2].Late), ms(s.stops[of*9/10].Late))),
		atMost(threads+"guests that are left", float64(s.after.Guests), 0, "", fmt.Sprintf("after %d traps", s.trapped)),
		atMost(threads+"goroutines that are left", float64(max(s.after.Goroutines-s.before.Goroutines, 0)), 4, "",
			fmt.Sprintf("%d before, %d after; connections have some", s.before.Goroutines, s.after.Goroutines)),
		atMost(threads+"growth of resident memory "+growth, s.after.Resident-s.middle.Resident, 16, "MiB",
			fmt.Sprintf("%.0f MiB before, %.0f MiB then, %.0f MiB after", s.before.Resident, s.middle.Resident, s.after.Resident)),
		atMost(threads+"p99 of another model, change", change, 10, "%",
			fmt.Sprintf("%.1f ms without, %.1f ms with %.0f hostile calls/s; %d and %d requests of MobileNetV2, %.0f "+
				"arrivals/s in %d windows of %v in turn; "+
				"windows without: %.1f ms in every other one, %.1f ms in the rest", p99(quiet), p99(&s.beside),
				1/hostilePace.Seconds(), quiet.Count(), s.beside.Count(), s.rate, 2*s.pairs, tailWindow, even, odd)),
	)
}
