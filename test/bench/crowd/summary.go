package crowd

import (
	"fmt"
	"slices"
	"time"
)

// Latencies are latencies of requests, in seconds.
type Latencies struct {
	N             int
	P50, P99, Max float64
}

func quantiles(seconds []float64) (l Latencies) {
	slices.Sort(seconds)
	if l.N = len(seconds); l.N > 0 {
		l.P50, l.P99, l.Max = seconds[l.N/2], seconds[l.N*99/100], seconds[l.N-1]
	}
	return l
}

// Summary is what became of the requests of a workload.
type Summary struct {
	Failed        int
	First         error     // of those that failed
	Found         float64   // the share that found their model loaded
	Waited        int       // requests that waited for the load of their model themselves, not in the queue behind such a one
	Beside, Alone Latencies // of those, while another model was being loaded and while none was
	Hits, Woke    Latencies // of those, and of those that waited for a load
	Took          time.Duration
}

// Summarize says what became of requests, at least one, in the order in which they began.
func Summarize(all []Asking) (s Summary) {
	var hits, woke, beside, alone []float64
	var wakes []Asking
	begin, end := all[0].begin, all[0].end
	for _, a := range all {
		if a.wake > 0 {
			wakes = append(wakes, a)
		}
		if end.Before(a.end) {
			end = a.end
		}
	}
	for _, a := range all {
		took := a.end.Sub(a.begin).Seconds()
		switch {
		case a.err != nil:
			s.Failed++
			if s.First == nil {
				s.First = a.err
			}
			continue
		case a.wake > 0:
			woke = append(woke, took)
			continue
		}
		during, queued := a.meets(wakes)
		switch {
		case queued:
			woke = append(woke, took)
			continue
		case during:
			beside = append(beside, took)
		default:
			alone = append(alone, took)
		}
		hits = append(hits, took)
	}
	s.Waited = len(wakes)
	s.Found, s.Took = float64(len(hits))/float64(len(all)), end.Sub(begin)
	s.Hits, s.Woke, s.Beside, s.Alone = quantiles(hits), quantiles(woke), quantiles(beside), quantiles(alone)
	return s
}

// meets tells whether a model was being loaded during a request, and whether it waited in the queue behind the request for
// which its own model was.
func (a Asking) meets(wakes []Asking) (during, queued bool) {
	i, _ := slices.BinarySearchFunc(wakes, a.begin.Add(-longestWake), func(w Asking, t time.Time) int { return w.begin.Compare(t) })
	for _, w := range wakes[i:] {
		if !w.begin.Before(a.end) {
			break
		}
		if w.end.After(a.begin) {
			during, queued = true, queued || w.model == a.model && w.begin.Before(a.begin)
		}
	}
	return during, queued
}

// longestWake bounds how long before a request another one has begun that still waits for its model.
const longestWake = time.Minute

// Columns are those of Row.
func Columns() []string {
	return []string{
		"side", "requests/s", "failed", "found loaded", "p50 ms", "p99 ms", "max ms", "p50 ms with a load", "p99 ms with a load",
		"max ms with a load",
	}
}

// Row is a summary as a row of a table.
func (s Summary) Row(name string) []string {
	ms := func(seconds float64) string { return fmt.Sprintf("%.4g", 1e3*seconds) }
	return []string{
		name, fmt.Sprintf("%.0f", float64(s.Hits.N+s.Woke.N)/s.Took.Seconds()), fmt.Sprint(s.Failed), fmt.Sprintf("%.1f %%", 100*s.Found),
		ms(s.Hits.P50), ms(s.Hits.P99), ms(s.Hits.Max), ms(s.Woke.P50), ms(s.Woke.P99), ms(s.Woke.Max),
	}
}
