package sched

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// machineLoad counts how many threads the runs of all its instances have. The threads that a solo run has beside its own do
// not count: they go on, with a lower priority, when another run gets their cores.
type machineLoad struct {
	mu        sync.Mutex
	now, most int
}

func (b *machineLoad) use(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now += n
	b.most = max(b.most, b.now)
}

// peak returns the most since it was asked last.
func (b *machineLoad) peak() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.most
	b.most = b.now
	return most
}

// worker is an instance whose runs take a while on some threads.
type worker struct {
	recorder
	machine *machineLoad
	threads int
	wide    int           // threads of a run that is a solo run; 0: as ever
	worked  time.Duration // core time
}

func (w *worker) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	threads := w.threads
	if options.Solo {
		threads = max(threads, w.wide)
	}
	w.machine.use(w.threads)
	result, err := w.recorder.Run(ctx, in, want, options)
	w.machine.use(-w.threads)
	if err == nil {
		result.Wide = threads > w.threads
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worked += w.takes * time.Duration(w.threads)
	return result, err
}

// saturate keeps n requests in a scheduler until the context ends.
func saturate(ctx context.Context, clients *sync.WaitGroup, s *Scheduler, n int) {
	for range n {
		clients.Go(func() {
			for ctx.Err() == nil {
				if r, err := s.Infer(ctx, row(1)); err == nil {
					r.Release()
				}
			}
		})
	}
}

func TestRunningThreadsNeverExceedTheCores(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		total := rapid.IntRange(1, 6).Draw(rt, "cores")
		type version struct{ instances, threads, wide, run, requests int }
		var versions []version
		for range rapid.IntRange(1, 4).Draw(rt, "versions") {
			versions = append(versions, version{
				rapid.IntRange(1, 4).Draw(rt, "instances"), rapid.IntRange(1, 8).Draw(rt, "threads"), rapid.IntRange(0,
					total).Draw(rt, "wide"),
				rapid.IntRange(0, 5).Draw(rt, "run"), rapid.IntRange(1, 60).Draw(rt, "requests"),
			})
		}
		synctest.Test(t, func(t *testing.T) {
			machine, budget := &machineLoad{}, cores.New(total)
			var clients sync.WaitGroup
			var all []*Scheduler
			for _, v := range versions {
				w := &worker{machine: machine, threads: min(v.threads, total), wide: v.wide}
				w.takes = time.Duration(v.run) * time.Millisecond
				s := schedulerOf(
					w, model(),
					Config{Instances: v.instances, Cores: budget, Threads: v.threads, SoloThreads: v.wide, MaxQueue: 100},
				)
				all = append(all, s)
				for i := range v.requests {
					clients.Go(func() {
						time.Sleep(time.Duration(i) * time.Millisecond)
						r, err := s.Infer(t.Context(), row(1))
						if err != nil {
							t.Error(err)
						}
						r.Release()
					})
				}
			}
			clients.Wait()
			for _, s := range all {
				_ = s.Close()
			}
			if machine.most > total || budget.Idle() != total {
				t.Errorf("%d threads at once on %d cores; %d are free afterwards", machine.most, total, budget.Idle())
			}
		})
	})
}

// TestVersionsShareTheCores keeps several versions busy for two seconds and looks at the core time of each.
func TestVersionsShareTheCores(t *testing.T) {
	const ms = time.Millisecond
	type version struct {
		instances, threads int
		takes              time.Duration
		least              time.Duration // core time that is its due
	}
	tests := []struct {
		name     string
		cores    int
		versions []version
	}{
		{"alone it has all cores", 2, []version{{2, 1, 10 * ms, 1990 * ms * 2}}},
		{"two alike", 2, []version{{2, 1, 10 * ms, 1900 * ms}, {2, 1, 10 * ms, 1900 * ms}}},
		{"one core", 1, []version{{1, 1, 10 * ms, 900 * ms}, {1, 1, 10 * ms, 900 * ms}}},
		{"many instances do not count", 2, []version{{8, 1, 10 * ms, 1900 * ms}, {1, 1, 10 * ms, 1900 * ms}}},
		{"long runs do not count", 2, []version{{2, 1, 50 * ms, 1800 * ms}, {2, 1, 2 * ms, 1800 * ms}}},
		{"three", 3, []version{{3, 1, 10 * ms, 1850 * ms}, {3, 1, 30 * ms, 1850 * ms}, {3, 1, 3 * ms, 1850 * ms}}},
		{"one that needs all cores is not starved", 2, []version{
			{1, 2, 10 * ms, 1700 * ms}, {2, 1, 10 * ms, 1700 * ms},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				machine, budget := &machineLoad{}, cores.New(test.cores)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				var clients sync.WaitGroup
				var workers []*worker
				var all []*Scheduler
				for _, v := range test.versions {
					w := &worker{machine: machine, threads: v.threads}
					w.takes = v.takes
					s := schedulerOf(
						w, model(), Config{Instances: v.instances, Cores: budget, Threads: v.threads, MaxQueue: 100},
					)
					workers, all = append(workers, w), append(all, s)
					saturate(ctx, &clients, s, 2*v.instances)
				}
				clients.Wait()
				for i, s := range all {
					_ = s.Close()
					if got := workers[i].worked; got < test.versions[i].least {
						t.Errorf(
							"version %d has worked for %v of core time, its due is %v", i, got, test.versions[i].least,
						)
					}
				}
			})
		})
	}
}

// crowded is a scheduler of one instance loop on a single core that another version keeps for 10 ms from now.
func crowded(t *testing.T, m *edgewise.Model, takes time.Duration) (r *recorder, s *Scheduler, end func()) {
	budget := cores.New(1)
	other := schedulerOf(
		&recorder{takes: 10 * time.Millisecond}, model(), Config{Instances: 1, Cores: budget, Threads: 1, MaxQueue: 1},
	)
	r = &recorder{takes: takes}
	s = schedulerOf(r, m, Config{Instances: 2, Cores: budget, Threads: 1, MaxQueue: 100})
	var client sync.WaitGroup
	client.Go(func() {
		response, err := other.Infer(t.Context(), row(1))
		if err != nil {
			t.Error(err)
		}
		response.Release()
	})
	synctest.Wait()
	return r, s, func() {
		client.Wait()
		_ = other.Close()
		_ = s.Close()
	}
}

func TestRulesWhileCoresAreTaken(t *testing.T) {
	const ms = time.Millisecond
	first := func(r *edgewise.Request) *edgewise.Request { r.Priority = 1; return r }
	tests := []struct {
		name     string
		batching edgewise.DynamicBatching
		clients  []client
		batches  string
		ends     string
	}{
		{
			"a batch grows until there are cores",
			edgewise.DynamicBatching{},
			[]client{{0, row(1), nil}, {3 * ms, row(2), nil}, {6 * ms, row(3), nil}},
			"[[1 2 3]]", "[ok 12ms ok 12ms ok 12ms]",
		},
		{
			"who has priority when there are cores goes first",
			edgewise.DynamicBatching{PriorityLevels: 2, DefaultPriorityLevel: 2, PreferredBatchSize: []int32{1}},
			[]client{{0, row(1), nil}, {3 * ms, first(row(2)), nil}},
			"[[2] [1]]", "[ok 14ms ok 12ms]",
		},
		{
			"who is canceled leaves at once",
			edgewise.DynamicBatching{},
			[]client{{0, row(1), func(c context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(c, 4*ms)
			}}, {ms, row(2), nil}},
			"[[2]]", "[deadline 4ms ok 12ms]",
		},
		{
			"who is overdue leaves at once",
			edgewise.DynamicBatching{DefaultQueuePolicy: &edgewise.QueuePolicy{DefaultTimeout: 5000}},
			[]client{{0, row(1), nil}},
			"[]", "[unavailable 5ms]",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, s, end := crowded(t, batching(test.batching), 2*ms)
				ends := outcome(t, s, test.clients)
				end()
				if got := fmt.Sprint(r.batches); got != test.batches {
					t.Errorf("batches %s, want %s", got, test.batches)
				}
				if got := fmt.Sprint(ends); got != test.ends {
					t.Errorf("ends %s, want %s", got, test.ends)
				}
			})
		})
	}
}

// TestInstancesChangeUnderLoad changes the number of instances all the time: no request is lost, and the runs at the same time
// follow.
func TestInstancesChangeUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := &machineLoad{}
		w := &worker{machine: machine, threads: 1}
		w.takes = 10 * time.Millisecond
		s := schedulerOf(w, model(), Config{Instances: 1, MaxQueue: 100})
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		saturate(ctx, &clients, s, 20)
		for _, n := range []int{4, 1, 8, 3, 0, 2} {
			s.Resize(n)
			time.Sleep(20 * time.Millisecond) // runs that began before end
			machine.peak()
			time.Sleep(100 * time.Millisecond)
			if most := machine.peak(); most != max(n, 1) {
				t.Errorf("%d runs at once with %d instance loops", most, n)
			}
		}
		if st := s.Statistics(); st.Fail.Count != 0 || st.Success.Count == 0 {
			t.Errorf("statistics %+v", st)
		}
		cancel()
		clients.Wait()
		_ = s.Close()
		s.Resize(9)
		synctest.Wait()
		if s.queue.loops.running > 2 {
			t.Errorf("%d instance loops were started after Close", s.queue.loops.running)
		}
	})
}
