package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// sleeper is a version whose process can rest. Starting it takes a second, or long, a request 10 ms.
type sleeper struct {
	fakeServable
	changing sync.Mutex // held by Rest
	mu       sync.Mutex
	claims   *edgewise.Claims
	long     time.Duration // its start; 0: a second
	now      int64         // what it takes
	most     int64
	awake    bool
	starting chan struct{}
	used     time.Time
	running  sync.WaitGroup
	runs     int
	starts   int
	asked    int64
}

func (s *sleeper) OnDemand(c edgewise.Claims) { s.claims = &c }

func (s *sleeper) Takes() (now, most int64) { return s.now, s.most }

func (s *sleeper) Used() (time.Time, int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.asked, s.runs > 0 || s.starting != nil
}

func (s *sleeper) Resting() bool { return false }

func (s *sleeper) Wake(context.Context) (func(), error) { return func() {}, nil }

func (s *sleeper) Rest() bool {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	was := s.awake
	s.awake = false
	s.mu.Unlock()
	if !was {
		return false
	}
	s.running.Wait()
	s.claims.Give()
	return true
}

// enter returns when the process is there.
func (s *sleeper) enter(ctx context.Context) error {
	for {
		s.mu.Lock()
		switch {
		case s.awake:
			s.used = time.Now()
			s.running.Add(1)
			s.runs++
			s.asked++
			s.mu.Unlock()
			return nil
		case s.starting != nil:
			wait := s.starting
			s.mu.Unlock()
			<-wait
			continue
		}
		s.starting, s.used = make(chan struct{}), time.Now()
		s.mu.Unlock()
		s.changing.Lock() // until Rest has given the memory back
		s.changing.Unlock()
		err := s.claims.Take(ctx)
		if err == nil {
			time.Sleep(cmp.Or(s.long, time.Second))
			s.claims.Taken(s.now, s.most)
		}
		s.mu.Lock()
		s.awake = err == nil
		s.starts++
		close(s.starting)
		s.starting = nil
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (s *sleeper) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer func() {
		s.mu.Lock()
		s.runs--
		s.mu.Unlock()
		s.running.Done()
	}()
	return s.fakeServable.Infer(ctx, req)
}

// crowd is a manager with room for 100 bytes and models that can rest.
type crowd struct {
	*Manager
	sleepers map[string]*sleeper
}

// newCrowd loads a model for each name. What it takes follows its name: "a30" takes 30 bytes, and 10 more while it
// starts; one that begins with a capital letter is pinned, one with t had 1,000 runs when it was loaded.
func newCrowd(t *testing.T, names ...string) *crowd {
	t.Helper()
	h := &crowd{sleepers: map[string]*sleeper{}}
	size := func(v *edgewise.Version) (n int64) {
		_, _ = fmt.Sscan(v.ID.Name[1:], &n)
		return n
	}
	h.Manager, _ = start(t, Config{
		Memory: 100,
		Footprint: func(_ context.Context, v *edgewise.Version) (Footprint, error) {
			return Footprint{Bytes: size(v) + 10}, nil
		},
	})
	h.config.Load = func(_ context.Context, v *edgewise.Version) (*Loaded, error) {
		time.Sleep(time.Second)
		s := &sleeper{fakeServable: fakeServable{t: t, id: v.ID}, now: size(v), most: size(v) + 10, awake: true, used: time.Now()}
		if v.ID.Name[0] == 't' {
			s.asked = 1000
		}
		h.sleepers[v.ID.Name] = s
		return &Loaded{Servable: s, Resident: s, Pinned: v.ID.Name[0] < 'a'}, nil
	}
	for _, name := range names {
		h.load(t, name)
	}
	return h
}

func (h *crowd) load(t *testing.T, name string) {
	t.Helper()
	r := live(1, 1)
	r.Name, r.Versions[0].ID.Name = name, name
	h.Want(r)
	if err := h.Settle(t.Context(), name); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Second)
}

func (h *crowd) ask(t *testing.T, name string) error {
	t.Helper()
	_, err := h.Infer(t.Context(), &edgewise.Request{Model: edgewise.ModelID{Name: name}})
	time.Sleep(time.Millisecond)
	return err
}

// awake names the models that have a process.
func (h *crowd) awake() string {
	var names []string
	for name, s := range h.sleepers {
		s.mu.Lock()
		if s.awake {
			names = append(names, name)
		}
		s.mu.Unlock()
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestTheModelAskedForLongestAgoRestsForALoadAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a30", "b30", "c30")
		if err := h.ask(t, "a30"); err != nil {
			t.Error(err)
		}
		h.load(t, "d30")
		if got := h.awake(); got != "a30 c30 d30" {
			t.Errorf("after d30 was loaded: %s", got)
		}
		begin := time.Now()
		if err := h.ask(t, "b30"); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 1100*time.Millisecond {
			t.Errorf("a request to a model that rests took %v, more than its start", took)
		}
		if got := h.awake(); got != "a30 b30 d30" {
			t.Errorf("after a request to b30: %s", got)
		}
		for _, name := range []string{"a30", "b30", "c30", "d30"} {
			if _, ready, err := h.Version(edgewise.ModelID{Name: name}); err != nil || len(ready) != 1 {
				t.Errorf("%s is not ready: %v", name, err)
			}
		}
	})
}

func TestAPinnedModelNeverRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "A50", "b30")
		h.load(t, "c30")
		if got := h.awake(); got != "A50 c30" {
			t.Errorf("awake: %s", got)
		}
		r := live(1, 1)
		r.Name, r.Versions[0].ID.Name = "d60", "d60"
		h.Want(r)
		err := h.Settle(t.Context(), "d60")
		want := "it takes about 70 bytes of memory, and 20 of the 100 bytes for models are free"
		if edgewise.KindOf(err) != edgewise.Exhausted || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if got := h.awake(); got != "A50 c30" {
			t.Errorf("a load that was refused has cost others their memory: %s", got)
		}
	})
}

// TestModelsThatFitOnlyInTurnsAnswerEveryRequest has many clients of models that take three times the memory.
func TestModelsThatFitOnlyInTurnsAnswerEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a30", "b30", "c30", "d30", "e30", "f30", "g40", "h40", "i40"}
		h := newCrowd(t, names...)
		var clients sync.WaitGroup
		for n := range 18 {
			clients.Go(func() {
				for k := range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					_, err := h.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: names[(n*7+k*(n+1))%len(names)]}})
					cancel()
					if err != nil {
						t.Errorf("client %d: %v", n, err)
					}
					h.mu.Lock()
					used, _ := h.memory()
					h.mu.Unlock()
					if used > 100 {
						t.Errorf("%d bytes are taken", used)
					}
				}
			})
		}
		clients.Wait()
	})
}

func TestAVersionThatServesDoesNotRestForItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a60")
		r := live(2, 1)
		r.Name = "a60"
		for _, v := range r.Versions {
			v.ID.Name = "a60"
		}
		h.Replace(r, 2)
		err := h.Await(t.Context(), edgewise.ModelID{Name: "a60", Version: 2})
		if edgewise.KindOf(err) != edgewise.Exhausted {
			t.Errorf("got %v", err)
		}
		if got := h.awake(); got != "a60" {
			t.Errorf("awake: %q", got)
		}
	})
}

func TestALoadIsWaitedForWhenOnlyThatCanMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a30")
		h.relieve(true)
		synctest.Wait()
		if got := h.awake(); got != "" {
			t.Fatalf("after relief: %q", got)
		}
		r := live(1, 1)
		r.Name, r.Versions[0].ID.Name = "b70", "b70"
		h.Want(r) // takes 80 while it is loaded
		synctest.Wait()
		if err := h.ask(t, "a30"); err != nil {
			t.Error(err)
		}
		if err := h.Settle(t.Context(), "b70"); err != nil {
			t.Error(err)
		}
	})
}

func TestMemoryThatRunsLowIsRelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a30", "b30", "C30")
		if err := h.ask(t, "a30"); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var low atomic.Bool
		go h.Watch(ctx, low.Load)
		for _, step := range []struct {
			low  bool
			want string
		}{{false, "C30 a30 b30"}, {true, "C30 a30"}, {false, "C30 a30"}, {true, "C30"}, {true, "C30"}} {
			low.Store(step.low)
			time.Sleep(watchEvery)
			synctest.Wait()
			if got := h.awake(); got != step.want {
				t.Errorf("low %v: awake %q, want %q", step.low, got, step.want)
			}
		}
	})
}

func TestAModelThatGrowsCostsTheOneAskedForLongestAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a30", "b30", "c20")
		h.sleepers["c20"].now, h.sleepers["c20"].most = 45, 60
		h.relieve(false)
		synctest.Wait()
		if got := h.awake(); got != "b30 c20" {
			t.Errorf("awake %q", got)
		}
	})
}

func TestAWaitForMemoryEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a60", "b60")
		s := h.sleepers["b60"]
		s.mu.Lock()
		s.running.Add(1) // a run that does not end
		s.runs++
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := h.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: "a60"}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		s.running.Done()
	})
}

func TestTrialsOfALoadDoNotCountAsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "t30", "b30", "c30") // t is tried 1,000 times while it is loaded
		for range 2 {
			for _, name := range []string{"b30", "c30"} {
				if err := h.ask(t, name); err != nil {
					t.Error(err)
				}
			}
		}
		if err := h.ask(t, "t30"); err != nil {
			t.Error(err)
		}
		h.load(t, "d30")
		if got := h.awake(); got != "b30 c30 d30" {
			t.Errorf("%s are awake: the least asked rests", got)
		}
	})
}

func TestWhatAVersionTakesIsToldWhenItGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t)
		var told []string
		h.config.Measured = func(id edgewise.ModelID, bytes int64) { told = append(told, fmt.Sprint(id.Name, " ", bytes)) }
		h.load(t, "a30")
		for _, most := range []int64{40, 44, 50, 20} { // first, no eighth more, more, less
			h.sleepers["a30"].most = most
			h.look(false)
		}
		if got := strings.Join(told, ", "); got != "a30 40, a30 50" {
			t.Errorf("told %s", got)
		}
	})
}

func TestMemoryIsScarceWhileAModelRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCrowd(t, "a30", "b30", "c30")
		scarce := func() bool {
			h.look(false)
			return h.sleepers["a30"].claims.Scarce()
		}
		if scarce() {
			t.Error("memory is scarce, and all models are awake")
		}
		h.load(t, "d30")
		if !scarce() {
			t.Error("memory is not scarce, and a model rests")
		}
	})
}

// TestFewRequestsWaitWhereModelsShareTheMemory asks forty models of 50 to 400 MB on 4 GiB, three quarters of which are for
// models, in the shape of Zipf's law. Its measure is a policy that knows every later request.
func TestFewRequestsWaitWhereModelsShareTheMemory(t *testing.T) {
	const models, requests, memory = 40, 20_000, 3 << 10
	for _, exponent := range []float64{0.8, 1, 1.2} {
		t.Run(fmt.Sprint(exponent), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			sizes, weights, sum := make([]int64, models), make([]float64, models), 0.0
			for i := range sizes {
				sizes[i] = 50 + rng.Int64N(351)
				sum += math.Pow(float64(i+1), -exponent)
				weights[i] = sum
			}
			asked := make([]int, requests)
			for i := range asked {
				asked[i] = sort.SearchFloat64s(weights, rng.Float64()*sum)
			}
			best := farseeing(asked, sizes, memory)
			synctest.Test(t, func(t *testing.T) {
				got := served(t, asked, sizes, memory)
				t.Logf("%.3f of the requests found their model loaded, %.3f if all later ones were known: %.3f", got, best, got/best)
				if got < 0.9*best {
					t.Error("that is less than nine tenths")
				}
			})
		})
	}
}

// served is the share of requests that a manager answers without loading.
func served(t *testing.T, asked []int, sizes []int64, memory int64) float64 {
	h := &crowd{sleepers: map[string]*sleeper{}}
	index := func(v *edgewise.Version) (i int) {
		_, _ = fmt.Sscan(v.ID.Name[1:], &i)
		return i
	}
	h.Manager, _ = start(t, Config{Memory: memory, Footprint: func(_ context.Context, v *edgewise.Version) (Footprint, error) {
		return Footprint{Bytes: sizes[index(v)]}, nil
	}})
	h.config.Load = func(_ context.Context, v *edgewise.Version) (*Loaded, error) {
		size := sizes[index(v)]
		s := &sleeper{fakeServable: fakeServable{t: t, id: v.ID}, now: size, most: size, awake: true, used: time.Now()}
		h.sleepers[v.ID.Name] = s
		return &Loaded{Servable: s, Resident: s}, nil
	}
	names := make([]string, len(sizes))
	for i := range sizes {
		names[i] = fmt.Sprint("m", i)
		h.load(t, names[i])
	}
	for _, i := range asked {
		if err := h.ask(t, names[i]); err != nil {
			t.Fatal(err)
		}
	}
	starts := 0
	for _, s := range h.sleepers {
		starts += s.starts
	}
	return 1 - float64(starts)/float64(len(asked))
}

// farseeing is the share of requests that find their model loaded when the one is given up for which size and time to its
// next request make the largest product.
func farseeing(asked []int, sizes []int64, memory int64) float64 {
	next, last := make([]int, len(asked)), map[int]int{}
	for i := len(asked) - 1; i >= 0; i-- {
		next[i] = 1 << 30
		if n, ok := last[asked[i]]; ok {
			next[i] = n
		}
		last[asked[i]] = i
	}
	loaded, used, found := map[int]int{}, int64(0), 0
	for i, m := range asked {
		if _, ok := loaded[m]; ok {
			found++
		} else {
			for used += sizes[m]; used > memory; {
				worst, product := -1, int64(-1)
				for other, at := range loaded {
					if p := int64(at-i) * sizes[other]; p > product {
						worst, product = other, p
					}
				}
				used -= sizes[worst]
				delete(loaded, worst)
			}
		}
		loaded[m] = next[i]
	}
	return float64(found) / float64(len(asked))
}
