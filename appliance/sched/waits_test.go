package sched

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/sched/waits"
)

const ms = time.Millisecond

// timed is a scheduler whose runs take a while, and the waits of its requests.
type timed struct {
	*Scheduler
	t       *testing.T
	clients sync.WaitGroup
}

func timedModel(t *testing.T, name string, takes time.Duration, m *edgewise.Model, c Config) *timed {
	m.Name = name
	w := &worker{machine: &machineLoad{}, threads: max(c.Threads, 1)}
	w.takes = takes
	c.MaxQueue = 100
	return &timed{Scheduler: schedulerOf(w, m, c), t: t}
}

// ask sends a request after a time, which is read so long before it is queued, and gives where its wait went.
func (m *timed) ask(after, reading time.Duration, out *[]edgewise.Wait) {
	m.clients.Go(func() {
		time.Sleep(after)
		req := row(1)
		req.Arrived = time.Now()
		time.Sleep(reading)
		r, err := m.Infer(m.t.Context(), req)
		if err != nil {
			m.t.Error(err)
			return
		}
		var sum time.Duration
		list := r.Timing.Explain()
		for _, w := range list {
			sum += w.Took
		}
		if sum != r.Timing.Queue {
			m.t.Errorf("the parts of the wait are %v together, want %v: %v", sum, r.Timing.Queue, list)
		}
		if out != nil {
			*out = list
		}
		r.Release()
	})
}

func (m *timed) close() {
	m.clients.Wait()
	_ = m.Close()
}

func expectWaits(t *testing.T, what string, got []edgewise.Wait, want ...edgewise.Wait) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s waited for %v, want %v", what, got, want)
	}
}

func id(name string) edgewise.ModelID { return edgewise.ModelID{Name: name, Version: 3} }

// TestAWaitNamesWhoHeldTheCores has a request to one model wait for three of another, on both cores.
func TestAWaitNamesWhoHeldTheCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{Instances: 2, Cores: cores.New(2), Threads: 1}
		wide := c
		wide.Threads, wide.Instances = 2, 1
		ocr := timedModel(t, "ocr", 20*ms, model(), c)
		face := timedModel(t, "face", 10*ms, model(), c)
		large := timedModel(t, "large", 8*ms, model(), wide)
		var second, third []edgewise.Wait
		ocr.ask(0, 0, nil)
		ocr.ask(0, 0, nil)
		face.ask(5*ms, 4*ms, &second) // read until 9, both cores are free at 20
		large.ask(12*ms, 0, &third)   // needs both cores: free at 30
		face.clients.Wait()
		large.clients.Wait()
		expectWaits(t, "face", second, edgewise.Wait{Cause: "preparation", Took: 4 * ms},
			edgewise.Wait{Cause: "cores", Model: id("ocr"), Requests: 2, Took: 11 * ms})
		expectWaits(t, "large", third, edgewise.Wait{Cause: "cores", Model: id("face"), Requests: 1, Took: 10 * ms},
			edgewise.Wait{Cause: "cores", Model: id("ocr"), Requests: 2, Took: 8 * ms})
		ocr.close()
		face.close()
		large.close()
	})
}

// TestAWaitBehindOthersOfTheModel tells runs of the model itself from those of others.
func TestAWaitBehindOthersOfTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Config{Instances: 1, Cores: cores.New(1), Threads: 1}
		ocr, face := timedModel(t, "ocr", 30*ms, model(), c), timedModel(t, "face", 10*ms, model(), c)
		var alone, first, last []edgewise.Wait
		ocr.ask(0, 2*ms, &alone)
		face.ask(5*ms, 0, &first)
		face.ask(6*ms, 0, nil)
		face.ask(20*ms, 0, &last)
		ocr.clients.Wait()
		face.clients.Wait()
		expectWaits(t, "ocr", alone, edgewise.Wait{Cause: "preparation", Took: 2 * ms})
		expectWaits(t, "the first", first, edgewise.Wait{Cause: "cores", Model: id("ocr"), Requests: 1, Took: 27 * ms})
		expectWaits(t, "the last", last, edgewise.Wait{Cause: "cores", Model: id("ocr"), Requests: 1, Took: 12 * ms},
			edgewise.Wait{Cause: "queue", Requests: 2, Took: 20 * ms})
		ocr.close()
		face.close()
	})
}

// TestAWaitForTheBatcher tells the delay of a batch from a wait for an instance.
func TestAWaitForTheBatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := model()
		m.DynamicBatching = &edgewise.DynamicBatching{MaxQueueDelay: 10_000, PreferredBatchSize: []int32{4}}
		s := timedModel(t, "m", 25*ms, m, Config{Instances: 1})
		var first, second, third []edgewise.Wait
		s.ask(0, 0, &first)
		s.ask(4*ms, 0, &second)
		s.ask(12*ms, 0, &third) // the instance is busy from 10 to 35, and its delay is over at 22
		s.clients.Wait()
		expectWaits(t, "the first", first, edgewise.Wait{Cause: "batch", Took: 10 * ms})
		expectWaits(t, "the second", second, edgewise.Wait{Cause: "batch", Took: 6 * ms})
		expectWaits(t, "the third", third, edgewise.Wait{Cause: "queue", Requests: 2, Took: 23 * ms})
		s.close()
	})
}

// TestAWaitForAProcessThatComesBack counts the start of a process for the request that starts it and for those behind it.
func TestAWaitForAProcessThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		instance := &sleepy{worker: worker{machine: &machineLoad{}}}
		s := schedulerOf(instance, model(), Config{Instances: 1, Cores: cores.New(1), Threads: 1, MaxQueue: 10})
		m := &timed{Scheduler: s, t: t}
		var first, second []edgewise.Wait
		m.ask(0, 0, &first)
		m.ask(10*ms, 0, &second)
		m.clients.Wait()
		expectWaits(t, "the first", first, edgewise.Wait{Cause: "loading", Took: time.Minute})
		expectWaits(t, "the second", second, edgewise.Wait{Cause: "loading", Took: time.Minute - 10*ms})
		m.close()
	})
}

// TestFewHoldersAreNamed has a request wait for more versions than one wait names: it names the first, and the rest as one.
func TestFewHoldersAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const versions = waits.MaxHolders + 3
		c := Config{Instances: 1, Cores: cores.New(1), Threads: 1}
		var others []*timed
		for i := range versions {
			m := timedModel(t, string(rune('a'+i)), 10*ms, model(), c)
			m.ask(time.Duration(i)*ms, 0, nil)
			others = append(others, m)
		}
		last := timedModel(t, "last", 5*ms, model(), c)
		var got []edgewise.Wait
		last.ask(9*ms+ms/2, 0, &got) // the first of the others ends at 10 ms
		last.clients.Wait()
		further := edgewise.Wait{Cause: "cores", Took: (versions-waits.MaxHolders-1)*10*ms + ms/2}
		if len(got) != waits.MaxHolders+1 || got[waits.MaxHolders] != further {
			t.Errorf("the waits are %v, want %d and last %v", got, waits.MaxHolders+1, further)
		}
		last.close()
		for _, m := range others {
			m.close()
		}
	})
}

// TestARequestThatFindsAnIdleInstanceNotesNothing holds what a request costs that waits for nothing.
func TestARequestThatFindsAnIdleInstanceNotesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler(&doubler{}, model(), Config{Instances: 1, Cores: cores.New(1), Threads: 1, MaxQueue: 10})
		synctest.Wait() // the instance loop is idle
		req := request(1, 2)
		req.Arrived = time.Now()
		time.Sleep(3 * ms)
		r, err := s.Infer(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
		if got := r.Timing; got.Waits != nil || got.Ahead != 0 || got.Prepared != 3*ms || got.Queue != 3*ms {
			t.Errorf("a request that found an idle instance has the timing %+v", got)
		}
		_ = s.Close()
	})
}
