package sequence

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// drawnStep is one request of a drawn sequence.
type drawnStep struct {
	x       int64
	pause   time.Duration // before it
	cancels time.Duration // 0: never
	holds   time.Duration
}

// drawnSequence is a client that sends one request after the other, or all at once.
type drawnSequence struct {
	id     edgewise.Sequence
	begins time.Duration
	steps  []drawnStep
	ends   bool
	piped  bool // it sends the next one before the answer to the one before
}

func drawSequence(t *rapid.T, number int) drawnSequence {
	s := drawnSequence{
		id: edgewise.Sequence{ID: uint64(number + 1)}, begins: time.Duration(
			rapid.IntRange(0, 20).Draw(t, "begins"),
		) * time.Millisecond,
		ends: rapid.Bool().Draw(t, "ends"), piped: rapid.Bool().Draw(t, "piped"),
	}
	for range rapid.IntRange(1, 6).Draw(t, "steps") {
		step := drawnStep{
			x:     rapid.SampledFrom([]int64{3, 5, 7, 11, 13, 3, 5, 7, 11, 13, hashFails, hashPanics}).Draw(t, "x"),
			pause: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 3, 60}).Draw(t, "pause")) * time.Millisecond,
			holds: time.Duration(rapid.IntRange(0, 3).Draw(t, "holds")) * time.Millisecond,
		}
		if rapid.IntRange(0, 7).Draw(t, "mind") == 0 {
			step.cancels = time.Duration(rapid.IntRange(1, 10).Draw(t, "cancels")) * time.Millisecond
		}
		s.steps = append(s.steps, step)
	}
	return s
}

// TestSequencesNeverMix runs many sequences at once, some of which are canceled, expire, fail or are started again, and
// holds every answer against what a sequence of its own would have said.
func TestSequencesNeverMix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		batch := rapid.SampledFrom([]int32{0, 1, 4}).Draw(rt, "batch")
		strategy := rapid.SampledFrom(
			[]func(*edgewise.SequenceBatching){oldest(0), oldest(3), direct(0, 0), direct(2*time.Millisecond, 0.5), nil},
		).Draw(rt, "strategy")
		m := hashModel(batch, strategy)
		m.SequenceBatching.MaxSequenceIdle = 50_000
		if o := m.SequenceBatching.Oldest; o != nil && batch > 1 {
			o.MaxQueueDelay = rapid.SampledFrom([]uint64{0, 1000}).Draw(rt, "delay")
			o.PreserveOrdering = rapid.Bool().Draw(rt, "ordered")
		}
		m.InstanceGroup[0].Count = int32(rapid.IntRange(1, 3).Draw(rt, "instances"))
		instance := &hasher{delay: time.Duration(rapid.IntRange(0, 4).Draw(rt, "run")) * time.Millisecond}
		var clients []drawnSequence
		for n := range rapid.IntRange(1, 12).Draw(rt, "sequences") {
			clients = append(clients, drawSequence(rt, n))
		}
		resizes := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 3).Draw(rt, "resizes")
		budget := NewStateBudget(1 << 20)
		synctest.Test(t, func(t *testing.T) {
			s := batcherOf(
				instance, m, sched.Config{Instances: rapid.IntRange(1, 2).Draw(rt, "instances"), MaxQueue: 100}, budget,
			)
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() { c.run(t, s, batch > 0) })
			}
			for _, n := range resizes {
				time.Sleep(5 * time.Millisecond)
				changed := *m
				changed.InstanceGroup = []edgewise.InstanceGroup{{Count: int32(n)}}
				s.Resize(n, &changed)
			}
			all.Wait()
			time.Sleep(time.Second) // whatever has not ended expires
			st := s.Statistics()
			if st.Pending != 0 || st.Sequences.Live != 0 || st.Sequences.Backlog != 0 || st.Sequences.StateBytes != 0 ||
				budget.Used() != 0 {
				t.Errorf("left over: %+v, %+v", st, st.Sequences)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if len(instance.faults) > 0 {
				t.Error(instance.faults[0])
			}
		})
	})
}

func (c drawnSequence) run(t *testing.T, s *Batcher, batches bool) {
	time.Sleep(c.begins)
	state, started := int64(1), false
	if c.piped {
		c.pipe(t, s, batches)
		return
	}
	for i, st := range c.steps {
		time.Sleep(st.pause)
		id := c.id
		id.Start, id.End = i == 0 || !started, c.ends && i == len(c.steps)-1
		if id.Start {
			state = 1
		}
		ctx, cancel := context.WithCancel(t.Context())
		if st.cancels > 0 {
			time.AfterFunc(st.cancels, cancel)
		}
		response, err := s.Infer(ctx, step(batches, id, st.x))
		if err != nil {
			started = c.judge(t, st, err, started || id.Start) && ctx.Err() == nil
			cancel()
			continue
		}
		started = true
		state = 31*state + st.x
		time.Sleep(st.holds)
		c.compare(t, response, state)
		cancel()
	}
}

// judge tells whether a failure is one that this request may have, and whether the sequence goes on.
func (c drawnSequence) judge(t *testing.T, st drawnStep, err error, started bool) bool {
	switch edgewise.KindOf(err) {
	case edgewise.Canceled:
		if st.cancels == 0 {
			t.Errorf("a request that no client canceled: %v", err)
		}
		return false
	case edgewise.Internal:
		if st.x >= 0 {
			t.Errorf("a good request fails: %v", err)
		}
		return started
	case edgewise.Invalid:
		if st.pause < 50*time.Millisecond {
			t.Errorf("a sequence is lost: %v", err)
		}
		return false
	}
	t.Error(err)
	return false
}

func (c drawnSequence) compare(t *testing.T, r *edgewise.Response, state int64) {
	y, id := int64(binary.LittleEndian.Uint64(r.Outputs[0].Data)), binary.LittleEndian.Uint64(r.Outputs[1].Data)
	if y != state || id != c.id.ID || len(r.Outputs) != 2 {
		t.Errorf("sequence %d says %d for sequence %d, want %d", c.id.ID, y, id, state)
	}
	r.Release()
}

// pipe sends everything at once, in order. What is behind a canceled request is canceled, or finds the sequence gone.
func (c drawnSequence) pipe(t *testing.T, s *Batcher, batches bool) {
	answers := make([]*edgewise.Response, len(c.steps))
	var all sync.WaitGroup
	for i, st := range c.steps {
		id := c.id
		id.Start, id.End = i == 0, c.ends && i == len(c.steps)-1
		ctx, cancel := context.WithCancel(t.Context())
		if st.cancels > 0 {
			time.AfterFunc(st.cancels, cancel)
		}
		all.Go(func() {
			defer cancel()
			answers[i], _ = s.Infer(ctx, step(batches, id, st.x))
		})
		time.Sleep(time.Microsecond) // so that the requests enter in this order: time passes when everybody waits
	}
	all.Wait()
	state := int64(1)
	for i, st := range c.steps {
		if answers[i] == nil && st.x >= 0 {
			if later := slices.IndexFunc(answers[i:], func(r *edgewise.Response) bool { return r != nil }); later >= 0 {
				t.Errorf("request %d has no answer and request %d has", i, i+later)
			}
			break
		}
		if answers[i] != nil {
			state = 31*state + st.x
			c.compare(t, answers[i], state)
		}
	}
	for _, r := range answers {
		r.Release()
	}
}
