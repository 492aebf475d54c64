package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
)

// ask sends a request, releases its answer and returns the number of the run that made it, and its bytes.
func ask(t *testing.T, s *Servable, req *edgewise.Request) (run int, text string) {
	t.Helper()
	r, err := s.Infer(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	data := string(r.Outputs[0].Data)
	if r.ID != req.ID || r.Model.Version != 1 || r.Outputs[0].Shape[0] != int64(len(data)) {
		t.Fatalf("answer %q of version %d, shape %v", r.ID, r.Model.Version, r.Outputs[0].Shape)
	}
	r.Release()
	return int(data[0]), data[1:]
}

func TestTheSameRequestRunsOnce(t *testing.T) {
	v := &counter{}
	s := New(1<<20).Wrap(version(nil), v)
	for i := range 3 {
		req := request("hello")
		req.ID = fmt.Sprint(i)
		if run, text := ask(t, s, req); run != 1 || text != "hello" {
			t.Errorf("request %d: %q of run %d", i, text, run)
		}
	}
	if v.inUse.Load() != 0 {
		t.Errorf("%d answers are still in use", v.inUse.Load())
	}
	st := s.Statistics()
	if st.CacheHit.Count != 2 || st.CacheMiss.Count != 1 || st.Success.Count != 3 || st.Queue.Count != 3 ||
		st.InferenceCount != 1 || st.LastInference.IsZero() {
		t.Errorf("statistics %+v", st)
	}
}

func TestWhatTheAnswerDependsOnIsInTheKey(t *testing.T) {
	two := func(change func(*edgewise.Request)) *edgewise.Request {
		r := &edgewise.Request{
			Inputs: []edgewise.Tensor{
				{Name: "a", Type: edgewise.Int32, Shape: edgewise.Shape{1, 2}, Data: []byte("12345678")},
				{Name: "b", Type: edgewise.Int32, Shape: edgewise.Shape{1}, Data: []byte("abcd")},
			},
			Outputs: []string{"x", "y"}, Parameters: map[string]any{"k": "v", "n": int64(1)},
		}
		change(r)
		return r
	}
	standard := keyOf(1, two(func(*edgewise.Request) {}))
	same := []struct {
		name   string
		change func(*edgewise.Request)
	}{
		{"the order of inputs", func(r *edgewise.Request) { r.Inputs[0], r.Inputs[1] = r.Inputs[1], r.Inputs[0] }},
		{"the request's id", func(r *edgewise.Request) { r.ID = "7" }},
		{"the priority", func(r *edgewise.Request) { r.Priority = 3 }},
		{"the timeout", func(r *edgewise.Request) { r.Timeout = time.Second }},
	}
	for _, test := range same {
		if keyOf(1, two(test.change)) != standard {
			t.Errorf("%s is in the key", test.name)
		}
	}
	other := []struct {
		name   string
		change func(*edgewise.Request)
	}{
		{"a byte", func(r *edgewise.Request) { r.Inputs[0].Data = []byte("12345679") }},
		{"a type", func(r *edgewise.Request) { r.Inputs[0].Type = edgewise.FP32 }},
		{"a shape", func(r *edgewise.Request) { r.Inputs[0].Shape = edgewise.Shape{2, 1} }},
		{"a rank", func(r *edgewise.Request) { r.Inputs[0].Shape = edgewise.Shape{2} }},
		{"a name", func(r *edgewise.Request) { r.Inputs[0].Name = "c" }},
		{"names exchanged", func(r *edgewise.Request) { r.Inputs[0].Name, r.Inputs[1].Name = "b", "a" }},
		{"an input less", func(r *edgewise.Request) { r.Inputs = r.Inputs[:1] }},
		{"the border between inputs", func(r *edgewise.Request) {
			r.Inputs[0].Data, r.Inputs[1].Data = []byte("1234567"), []byte("8abcd")
		}},
		{"an output less", func(r *edgewise.Request) { r.Outputs = r.Outputs[:1] }},
		{"no outputs named", func(r *edgewise.Request) { r.Outputs = nil }},
		{"the order of outputs", func(r *edgewise.Request) { r.Outputs = []string{"y", "x"} }},
		{"the border between outputs", func(r *edgewise.Request) { r.Outputs = []string{"xy"} }},
		{"a parameter's value", func(r *edgewise.Request) { r.Parameters["n"] = int64(2) }},
		{"a parameter's type", func(r *edgewise.Request) { r.Parameters["n"] = "1" }},
		{"a parameter as float", func(r *edgewise.Request) { r.Parameters["n"] = float64(1) }},
		{"a parameter as bool", func(r *edgewise.Request) { r.Parameters["n"] = true }},
		{"a parameter less", func(r *edgewise.Request) { delete(r.Parameters, "n") }},
	}
	seen := map[key]string{
		standard: "the standard request",
		keyOf(2, two(func(*edgewise.Request) {})): "another load of the version",
	}
	if len(seen) != 2 {
		t.Error("two loads of a version share their answers")
	}
	for _, test := range other {
		k := keyOf(1, two(test.change))
		if twin := seen[k]; twin != "" {
			t.Errorf("%s gives the key of %s", test.name, twin)
		}
		seen[k] = test.name
	}
}

func TestRequestsOfASequenceAlwaysRun(t *testing.T) {
	s := New(1<<20).Wrap(version(nil), &counter{})
	for want := 1; want <= 2; want++ {
		req := request("x")
		req.Sequence.ID = 9
		if run, _ := ask(t, s, req); run != want {
			t.Errorf("run %d, want %d", run, want)
		}
	}
}

func TestErrorsAreNotKept(t *testing.T) {
	v := &counter{before: func(context.Context, *edgewise.Request) error { return errors.New("broken") }}
	s := New(1<<20).Wrap(version(nil), v)
	if _, err := s.Infer(t.Context(), request("x")); err == nil || err.Error() != "broken" {
		t.Fatalf("got %v", err)
	}
	v.before = nil
	if run, _ := ask(t, s, request("x")); run != 2 {
		t.Errorf("run %d", run)
	}
}

func TestTheBoundHoldsAndTheOldestGoesFirst(t *testing.T) {
	const size = entryOverhead + 11 // the run's number and ten bytes
	c := New(3 * size)
	s := c.Wrap(version(nil), &counter{})
	text := func(i int) *edgewise.Request { return request(fmt.Sprintf("%010d", i)) }
	for i := range 3 {
		ask(t, s, text(i))
	}
	ask(t, s, text(0)) // now 1 was asked for longest ago
	ask(t, s, text(3))
	if u := c.Usage(); u != (Usage{Bytes: 3 * size, Limit: 3 * size, Entries: 3, Evicted: 1}) {
		t.Errorf("usage %+v", u)
	}
	for i, kept := range map[int]bool{0: true, 2: true, 3: true, 1: false} {
		if (c.get(keyOf(s.serial, text(i))) != nil) != kept {
			t.Errorf("answer %d kept: %v", i, !kept)
		}
	}
	for range 2 {
		ask(t, s, request(strings.Repeat("x", 3*size)))
	}
	if u := c.Usage(); u.Entries != 3 || s.Statistics().CacheMiss.Count != 6 {
		t.Errorf("usage %+v after an answer that does not fit", u)
	}
}

func TestUnloadingForgetsOnlyTheVersionsAnswers(t *testing.T) {
	c := New(1 << 20)
	v := &counter{}
	gone, stays := c.Wrap(version(nil), v), c.Wrap(version(nil), &counter{})
	ask(t, gone, request("x"))
	ask(t, stays, request("x"))
	if err := gone.Close(); err != nil || !v.closed.Load() {
		t.Fatalf("closed %v, error %v", v.closed.Load(), err)
	}
	ask(t, gone, request("late"))
	if u := c.Usage(); u.Entries != 1 {
		t.Errorf("usage %+v", u)
	}
	if run, _ := ask(t, stays, request("x")); run != 1 {
		t.Errorf("run %d", run)
	}
}

func TestAnAnswerIsStillReadableAfterItWasEvicted(t *testing.T) {
	s := New(entryOverhead+6).Wrap(version(nil), &counter{})
	ask(t, s, request("first"))
	r, err := s.Infer(t.Context(), request("first"))
	if err != nil {
		t.Fatal(err)
	}
	ask(t, s, request("other"))
	if string(r.Outputs[0].Data) != "\x01first" {
		t.Errorf("the answer became %q", r.Outputs[0].Data)
	}
}

func TestAHitWaitsForEarlierRequestsWhereOrderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &counter{}
		s := New(1<<20).Wrap(version(&edgewise.DynamicBatching{PreserveOrdering: true}), v)
		ask(t, s, request("quick"))
		v.before = func(ctx context.Context, _ *edgewise.Request) error {
			time.Sleep(time.Second)
			return ctx.Err()
		}
		var mu sync.Mutex
		var left []string
		var all sync.WaitGroup
		send := func(ctx context.Context, name, data string) {
			all.Go(func() {
				_, err := s.Infer(ctx, request(data))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					name += " " + edgewise.KindOf(err).String()
				}
				left = append(left, name)
			})
			synctest.Wait()
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		send(t.Context(), "slow", "slow")
		send(short, "impatient", "quick")
		send(t.Context(), "patient", "quick")
		all.Wait()
		if got := strings.Join(left, ", "); got != "impatient deadline, slow, patient" {
			t.Errorf("left: %s", got)
		}
	})
}

func TestEveryRequestGetsItsOwnAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(rapid.Int64Range(0, 4*entryOverhead).Draw(t, "limit"))
		v := &counter{}
		ordered := rapid.Bool().Draw(t, "ordered")
		s := c.Wrap(version(&edgewise.DynamicBatching{PreserveOrdering: ordered}), v)
		texts := rapid.SliceOfN(rapid.StringMatching("[a-d]{1,3}"), 1, 40).Draw(t, "requests")
		var all sync.WaitGroup
		for _, text := range texts {
			all.Go(func() {
				r, err := s.Infer(context.Background(), request(text))
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				if string(r.Outputs[0].Data[1:]) != text {
					t.Errorf("asked for %q, got %q", text, r.Outputs[0].Data[1:])
				}
				r.Release()
			})
		}
		all.Wait()
		st := s.Statistics()
		if u := c.Usage(); u.Bytes > u.Limit || v.inUse.Load() != 0 ||
			st.CacheHit.Count+st.CacheMiss.Count != uint64(len(texts)) {
			t.Errorf("usage %+v, %d in use, statistics %+v", u, v.inUse.Load(), st)
		}
	})
}
