package perf

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// server answers requests with handle and returns a request to it.
func server(t *testing.T, handle http.HandlerFunc) *Request {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return post(t, s.URL, []byte("body"))
}

func ok(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, "answer")
}

func quick() Options {
	return Options{Window: MinWindow, Stability: 100, MaxWindows: 3, Timeout: patience, MaxConnections: 64}
}

// run measures one load.
func run(t *testing.T, r *Request, o Options, load Load) Step {
	t.Helper()
	steps, err := Run(t.Context(), r, o, []Load{load}, nil)
	if err != nil || len(steps) != 1 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	return steps[0]
}

// stalling answers at once, except that it stops for a while at the request of a number, and everybody with it.
func stalling(at int64, pause time.Duration) http.HandlerFunc {
	var mu sync.RWMutex // held while the server stalls
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if seen.Add(1) == at {
			mu.Lock()
			<-time.After(pause)
			mu.Unlock()
		}
		mu.RLock()
		defer mu.RUnlock()
		ok(w, r)
	}
}

const stall = 500 * time.Millisecond

func TestOpenLoopSeesAStallInItsPercentiles(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Window, o.Arrivals = 700*time.Millisecond, Constant
	s := run(t, server(t, stalling(100, stall)), o, Load{Rate: 200})
	if p99 := s.Latency.P99; p99 < 400_000 || s.Latency.Max < 450_000 {
		t.Errorf("p99 %v us, longest %v us: the stall of %v is hidden", p99, s.Latency.Max, stall)
	}
}

func TestOpenLoopWithOneConnectionSeesTheStallToo(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Window, o.Arrivals, o.MaxConnections = 700*time.Millisecond, Constant, 1
	s := run(t, server(t, stalling(100, stall)), o, Load{Rate: 200})
	if s.Latency.P99 < 400_000 || s.Generator.DelayP99 < 350_000 {
		t.Errorf("p99 %v us, of which %v us before sending: the stall of %v is hidden", s.Latency.P99, s.Generator.DelayP99, stall)
	}
}

func TestClosedLoopHidesAStall(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Window = 700 * time.Millisecond
	s := run(t, server(t, stalling(300, stall)), o, Load{Concurrency: 1})
	if s.Latency.P99 > 200_000 || s.Latency.Max < 450_000 {
		t.Errorf("p99 %v us, longest %v us", s.Latency.P99, s.Latency.Max)
	}
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	t.Parallel()
	for _, arrivals := range []Arrivals{Constant, Poisson} {
		o := quick()
		o.Window, o.Arrivals = 500*time.Millisecond, arrivals
		var s Step
		for range 5 { // a busy machine may keep the generator itself back
			if s = run(t, server(t, ok), o, Load{Rate: 400}); s.Throughput >= 300 && s.Throughput <= 500 && s.Failed == 0 {
				break
			}
		}
		if s.Throughput < 300 || s.Throughput > 500 || s.Failed > 0 {
			t.Errorf("arrivals %v: %v requests a second, %d failed", arrivals, s.Throughput, s.Failed)
		}
	}
}

func TestRateThatTheServerCannotKeepIsReportedAsBehind(t *testing.T) {
	t.Parallel()
	o := quick()
	o.MaxConnections, o.Window = 1, 200*time.Millisecond
	s := run(t, server(t, func(w http.ResponseWriter, r *http.Request) {
		<-time.After(20 * time.Millisecond)
		ok(w, r)
	}), o, Load{Rate: 500})
	if s.Behind < 0.2 || s.Throughput > 60 {
		t.Errorf("%v s behind, %v requests a second", s.Behind, s.Throughput)
	}
}

func TestClosedLoopHasAsManyRequestsOnTheWayAsCallers(t *testing.T) {
	t.Parallel()
	const callers = 7
	var now, most atomic.Int64
	var full sync.Once
	all := make(chan struct{}) // closed when as many requests are on the way as there are callers
	run(t, server(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			continue
		}
		if n == callers {
			full.Do(func() { close(all) })
		}
		<-all
		<-time.After(time.Millisecond) // so that more of them would meet
		now.Add(-1)
		ok(w, r)
	}), quick(), Load{Concurrency: callers})
	if most.Load() != callers {
		t.Errorf("%d requests at a time, want %d", most.Load(), callers)
	}
}

func TestFailuresAreCountedByStatusAndText(t *testing.T) {
	var seen atomic.Int64
	o := quick()
	o.Timeout = time.Second
	s := run(t, server(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch seen.Add(1) % 4 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":"queue is full"}`)
		case 1:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, strings.Repeat("long ", 100))
		default:
			_, _ = io.WriteString(w, "fine")
		}
	}), o, Load{Concurrency: 1})
	if len(s.Failures) != 2 || s.Failed == 0 || s.Requests == 0 {
		t.Fatalf("%d answered, %d failed: %v", s.Requests, s.Failed, s.Failures)
	}
	texts := map[int]string{}
	for _, f := range s.Failures {
		texts[f.Status] = f.Text
	}
	want := map[int]string{503: "queue is full", 400: strings.Repeat("long ", 100)[:maxFailureText] + "..."}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Error(diff)
	}
}

func TestDifferentFailuresAreBounded(t *testing.T) {
	var sum tally
	for i := range 10 * maxFailures {
		sum.fail(failureKey{status: 400 + i}, 1)
	}
	if len(sum.failures) != maxFailures+1 || sum.failed() != 10*maxFailures || sum.failures[failureKey{text: otherFailures}] != 9*maxFailures {
		t.Errorf("%d kinds, %d in all, %d others", len(sum.failures), sum.failed(), sum.failures[failureKey{text: otherFailures}])
	}
}

func TestStepWhereNothingSucceedsIsNotRepeated(t *testing.T) {
	o := quick()
	o.MaxWindows = MaxWindows
	s := run(t, server(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }),
		o, Load{Concurrency: 1})
	if s.Windows != reported || s.Stable || s.Requests != 0 {
		t.Errorf("%d windows, stable %v, %d answered", s.Windows, s.Stable, s.Requests)
	}
}

func TestWarmupIsNotCounted(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	o := quick()
	o.Warmup = 3 * time.Second
	s := run(t, server(t, func(w http.ResponseWriter, r *http.Request) {
		if seen.Add(1) == 1 {
			<-time.After(2500 * time.Millisecond) // longer than a busy machine makes any other request wait
		}
		ok(w, r)
	}), o, Load{Concurrency: 1})
	if s.Slowest > 2_400_000 {
		t.Errorf("the slowest request took %v us: the warm-up is in it", s.Slowest)
	}
}

func TestEndOfTheContextLeavesWhatWasMeasured(t *testing.T) {
	before := runtime.NumGoroutine() // no other test runs beside this one
	ctx, cancel := context.WithCancel(t.Context())
	var done []Step
	o := quick()
	o.Statistics = func(context.Context) (*kserve.StatisticsBody, error) { return nil, errors.New("none") }
	var second atomic.Bool
	var seen atomic.Int64
	r := server(t, func(w http.ResponseWriter, r *http.Request) {
		if second.Load() && seen.Add(1) == 30 {
			cancel()
		}
		ok(w, r)
	})
	o.Stability, o.MaxWindows = 1e-9, 4
	steps, err := Run(ctx, r, o, []Load{{Concurrency: 2}, {Rate: 100}, {Concurrency: 4}}, func(s Step) {
		done = append(done, s)
		second.Store(true)
	})
	if err != nil || len(steps) != 2 || steps[0].Interrupted || !steps[1].Interrupted || steps[1].Requests == 0 {
		t.Fatalf("%v, %d steps: %+v", err, len(steps), steps)
	}
	if !reflect.DeepEqual(steps, done) {
		t.Errorf("told while measuring: %+v, returned: %+v", done, steps)
	}
	for limit := time.Now().Add(patience); runtime.NumGoroutine() > before+10; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestWindowsAgreeInThroughputAndLatency(t *testing.T) {
	made := func(count int, latency time.Duration) window {
		w := window{tally: &tally{}, length: time.Second}
		for range count {
			w.latency.Record(latency)
		}
		return w
	}
	for _, c := range []struct {
		name string
		last []window
		want bool
	}{
		{"alike", []window{made(100, 1000), made(105, 1010), made(95, 990)}, true},
		{"too few", []window{made(100, 1000), made(100, 1000)}, false},
		{"throughput differs", []window{made(100, 1000), made(100, 1000), made(130, 1000)}, false},
		{"latency differs", []window{made(100, 1000), made(100, 1000), made(100, 1300)}, false},
		{"nothing answered", []window{made(0, 0), made(0, 0), made(0, 0)}, false},
	} {
		if got := agree(c.last, 10); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestServersOwnSplitIsTheDifferenceOfItsCounters(t *testing.T) {
	var calls atomic.Uint64
	o := quick()
	o.Batch = 4
	o.Statistics = func(context.Context) (*kserve.StatisticsBody, error) {
		n := calls.Add(1) + 50
		count := func(us uint64) kserve.StatisticsCount {
			return kserve.StatisticsCount{Count: 10 * n, NS: 10 * n * us * 1000}
		}
		return &kserve.StatisticsBody{ModelStats: []kserve.ModelStatistics{{
			Name: "m", Version: "1", InferenceCount: 40 * n, ExecutionCount: 5 * n,
			InferenceStats: kserve.InferenceStatistics{
				Success: count(0), Queue: count(7), ComputeInput: count(1),
				ComputeInfer: count(20), ComputeOutput: count(2),
			},
		}}}, nil
	}
	s := run(t, server(t, ok), o, Load{Concurrency: 1})
	want := &Server{Queue: 7, ComputeInput: 1, ComputeInfer: 20, ComputeOutput: 2, Batch: 8, Requests: 30}
	if diff := cmp.Diff(want, s.Server); diff != "" {
		t.Error(diff)
	}
	if s.Inferences < 3.99*s.Throughput || s.Inferences > 4.01*s.Throughput {
		t.Errorf("%v inferences a second of %v requests with 4 each", s.Inferences, s.Throughput)
	}
}

func TestVersionThatWasLoadedAnewCountsFromZero(t *testing.T) {
	key := versionKey{"m", "1"}
	got := counters{key: {success: 3, executions: 2}, {"m", "2"}: {success: 5}}.since(counters{key: {success: 100, executions: 100}})
	if got[key].success != 3 || got[key].executions != 2 || got[versionKey{"m", "2"}].success != 5 {
		t.Errorf("got %+v", got)
	}
}

func TestServerWithoutStatisticsIsMeasuredWithoutASplit(t *testing.T) {
	o := quick()
	o.Statistics = func(context.Context) (*kserve.StatisticsBody, error) { return nil, errors.New("not here") }
	if s := run(t, server(t, ok), o, Load{Concurrency: 1}); s.Server != nil || s.Requests == 0 {
		t.Errorf("%d requests, split %+v", s.Requests, s.Server)
	}
}

func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
	}{
		{"warm-up below", func(o *Options) { o.Warmup = -1 }},
		{"warm-up above", func(o *Options) { o.Warmup = MaxWarmup + 1 }},
		{"window below", func(o *Options) { o.Window = MinWindow - 1 }},
		{"window above", func(o *Options) { o.Window = MaxWindow + 1 }},
		{"stability zero", func(o *Options) { o.Stability = 0 }},
		{"stability above", func(o *Options) { o.Stability = 100.1 }},
		{"two windows", func(o *Options) { o.MaxWindows = 2 }},
		{"windows above", func(o *Options) { o.MaxWindows = MaxWindows + 1 }},
		{"timeout below", func(o *Options) { o.Timeout = MinTimeout - 1 }},
		{"timeout above", func(o *Options) { o.Timeout = MaxTimeout + 1 }},
		{"no connection", func(o *Options) { o.MaxConnections = 0 }},
		{"connections above", func(o *Options) { o.MaxConnections = MaxConcurrency + 1 }},
		{"arrivals", func(o *Options) { o.Arrivals = 2 }},
		{"batch", func(o *Options) { o.Batch = MaxBatch + 1 }},
	} {
		o := quick()
		c.change(&o)
		if _, err := Run(t.Context(), &Request{}, o, nil, nil); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	o := quick()
	for _, loads := range [][]Load{
		{{}},
		{{Concurrency: -1}},
		{{Concurrency: MaxConcurrency + 1}},
		{{Rate: MaxRate + 1}},
		make([]Load, MaxSteps+1),
	} {
		if _, err := Run(t.Context(), &Request{}, o, loads, nil); err == nil || edgewise.KindOf(err) != edgewise.Invalid {
			t.Errorf("%v: got %v", loads[0], err)
		}
	}
}
