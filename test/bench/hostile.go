package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/test/hostile"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	hostileRun   = 50 * time.Millisecond // that a guest may run
	hostilePace  = 50 * time.Millisecond // between two calls of hostile modules, while the other model's tail is measured
	hostileTraps = 100_000               // with as many threads as cores; fewer otherwise
	victimPace   = 20 * time.Millisecond // between two requests to the model beside them
)

// hostileFigures sends the corpus of hostile modules to a box on a number of the runtime's threads, whose collector runs all the
// time, while a model is under load.
func hostileFigures(procs int) measurement {
	return func(dir string, rounds int) (r result, err error) {
		s := &siege{procs: procs, rounds: min(rounds, 3), traps: hostileTraps}
		if procs != 2 {
			s.traps = hostileTraps / 5
		}
		if err := s.begin(dir); err != nil {
			return r, err
		}
		defer func() { _ = s.box.stop() }()
		if err := s.run(context.Background()); err != nil {
			return r, err
		}
		r.Figures = s.figures()
		return r, nil
	}
}

// siege is a box, what is done to it, and what came of it.
type siege struct {
	procs, rounds, traps int
	box                  *box
	attack               *hostile.Attack
	rate                 float64 // arrivals at the model beside them

	refused, accepted, called, paused, trapped int
	stops                                      []time.Duration
	before, middle, after                      hostile.State
	quiet, beside                              []float64 // p99, in ms
	victims, lost                              atomic.Int64
}

// begin starts the box with a model in it.
func (s *siege) begin(dir string) error {
	modules, err := hostile.Read("wasm/testdata/hostile")
	if err != nil {
		return err
	}
	environment := []string{fmt.Sprintf("GOMAXPROCS=%d", s.procs), "GOGC=5"}
	if s.box, err = startBoxWith(anywhere, environment, filepath.Join(dir, "data"), "wasm.run_timeout="+hostileRun.String()); err != nil {
		return err
	}
	s.attack = &hostile.Attack{Client: s.box.client, RunTimeout: hostileRun, Modules: modules}
	if err := push(s.box, "model", onnxgen.MobileNetV2(1).Bytes(), ""); err != nil {
		return err
	}
	clients, err := clientsOf(s.box, "model", noise(picture), kserve.Binary, anywhere)
	if err != nil {
		return err
	}
	full, err := clients.loop(crashClients, sampleTime)
	s.rate = crashLoad * full.rate
	return err
}

// run does everything, and looks at the box before and after.
func (s *siege) run(ctx context.Context) (err error) {
	url := "http://" + s.box.address
	if s.before, err = hostile.Look(ctx, url); err != nil {
		return err
	}
	stop := s.load()
	err = s.harm(ctx)
	stop()
	if err != nil {
		return fmt.Errorf("%w; the box says: %s", err, s.box.errors.String())
	}
	if err := s.tails(ctx); err != nil {
		return err
	}
	stop = s.load()
	err = s.trap(ctx, url)
	stop()
	if err != nil {
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

// tails measures the model beside them with and without hostile calls, a window each in turn.
func (s *siege) tails(ctx context.Context) error {
	for range s.rounds {
		alone, err := window(s.box, s.rate)
		if err != nil {
			return err
		}
		calling, end := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- s.attack.Pace(calling, hostilePace) }()
		beside, err := window(s.box, s.rate)
		end()
		if err := errors.Join(err, <-done); err != nil {
			return err
		}
		s.quiet, s.beside = append(s.quiet, alone.Latency.P99/1e3), append(s.beside, beside.Latency.P99/1e3)
		s.lost.Add(int64(alone.Failed) + int64(beside.Failed))
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

// load sends requests to the model beside them until the function that it returns is called.
func (s *siege) load() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		in := noise(picture)
		for ticks := time.NewTicker(victimPace); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			response, err := s.box.client.Infer(context.Background(), &edgewise.Request{Model: edgewise.ModelID{Name: "model"}, Inputs: []edgewise.Tensor{in}})
			s.victims.Add(1)
			if err != nil {
				s.lost.Add(1)
				continue
			}
			response.Release()
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

func (s *siege) figures() []figure {
	slices.Sort(s.stops)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	threads := fmt.Sprintf("hostile modules, GOMAXPROCS %d: ", s.procs)
	change := 100 * (median(s.beside)/median(s.quiet) - 1)
	growth := "from 10 % of the traps on"
	return []figure{
		atMost(threads+"failed requests to another model", float64(s.lost.Load()), 0, "", fmt.Sprintf("%d requests and %d windows; %d modules refused, %d accepted, called %d times, paused %d times; the box did not end",
			s.victims.Load(), 2*s.rounds, s.refused, s.accepted, s.called, s.paused)),
		atMost(threads+"latest stop after its limit", ms(s.stops[len(s.stops)-1]), 20, "ms", fmt.Sprintf("%d stops, up to two at once, seen by the client; median %.2f ms, p90 %.2f ms", len(s.stops), ms(s.stops[len(s.stops)/2]), ms(s.stops[len(s.stops)*9/10]))),
		atMost(threads+"guests that are left", float64(s.after.Guests), 0, "", fmt.Sprintf("after %d traps", s.trapped)),
		atMost(threads+"goroutines that are left", float64(max(s.after.Goroutines-s.before.Goroutines, 0)), 4, "", fmt.Sprintf("%d before, %d after; connections have some", s.before.Goroutines, s.after.Goroutines)),
		atMost(threads+"growth of resident memory "+growth, s.after.Resident-s.middle.Resident, 16, "MiB", fmt.Sprintf("%.0f MiB before, %.0f MiB then, %.0f MiB after", s.before.Resident, s.middle.Resident, s.after.Resident)),
		atMost(threads+"p99 of another model, change", change, 10, "%", fmt.Sprintf("%.1f ms without, %.1f ms with %.0f hostile calls/s; %d windows of %v each, %.0f arrivals/s of MobileNetV2", median(s.quiet), median(s.beside),
			1/hostilePace.Seconds(), s.rounds, crashWindow, s.rate)),
	}
}
