package sched

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// recorder is an instance of the model in model(): it notes the first value of each row of each batch, and each run
// takes a while.
type recorder struct {
	takes   time.Duration
	fails   float32 // a batch with this value fails; 0: none
	alone   bool    // batches of more than one row fail to keep dimension 0
	mu      sync.Mutex
	batches [][]byte
	ended   []error // what the contexts said after the runs
	freed   int
}

func (r *recorder) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	time.Sleep(r.takes)
	var rows []byte
	for at := 0; at < len(in[0].Data); at += 8 {
		rows = append(rows, in[0].Data[at])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches, r.ended = append(r.batches, rows), append(r.ended, ctx.Err())
	if slices.Contains(rows, byte(r.fails)) && r.fails != 0 {
		return nil, errors.New("bad row")
	}
	out := edgewise.Tensor{
		Name: "y", Type: edgewise.FP32, Shape: slices.Clone(in[0].Shape), Data: slices.Clone(in[0].Data),
	}
	if r.alone {
		out.Shape[0], out.Data = 1, out.Data[:8]
	}
	return &edgewise.Result{Outputs: []edgewise.Tensor{out}, Infer: r.takes, Free: func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.freed++
	}}, nil
}

func (*recorder) Close() error { return nil }

func batching(b edgewise.DynamicBatching) *edgewise.Model {
	m := model()
	m.DynamicBatching = &b
	return m
}

// row is a request with one row, whose first byte is mark.
func row(mark byte) *edgewise.Request {
	req := request(0, 0)
	req.Inputs[0].Data[0] = mark
	return req
}

// client sends one request at a time and reports its end.
type client struct {
	at  time.Duration
	req *edgewise.Request
	ctx func(context.Context) (context.Context, context.CancelFunc)
}

// outcome runs clients against a recorder and returns how their requests ended, as "ok 3ms" or "unavailable 1ms".
func outcome(t *testing.T, s *Scheduler, clients []client) []string {
	ends := make([]string, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			time.Sleep(c.at)
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if c.ctx != nil {
				ctx, cancel = c.ctx(ctx)
			}
			defer cancel()
			start := time.Now()
			r, err := s.Infer(ctx, c.req)
			ends[i] = "ok"
			if err != nil {
				ends[i] = edgewise.KindOf(err).String()
			}
			ends[i] += " " + (c.at + time.Since(start)).String()
			r.Release()
		})
	}
	all.Wait()
	return ends
}

// TestAnAdaptiveDelayNeverKeepsASingleClientWaiting sends bursts and single requests and looks at how long each waits.
func TestAnAdaptiveDelayNeverKeepsASingleClientWaiting(t *testing.T) {
	const ms = time.Millisecond
	burst := []client{{0, row(1), nil}, {ms, row(2), nil}, {ms, row(3), nil}} // answered at 10 and 20 ms
	tests := []struct {
		name    string
		clients []client
		ends    string
	}{
		{"alone from the start", []client{
			{0, row(1), nil}, {11 * ms, row(2), nil}, {50 * ms, row(3), nil},
		}, "[ok 10ms ok 21ms ok 60ms]"},
		{"after a burst and a quiet time", append(burst, client{50 * ms, row(4), nil}), "ok 60ms]"},
		{"right after a burst others may follow, for half a run", append(
			burst, client{21 * ms, row(4), nil},
		), "ok 36ms]"},
		{"and when they do, it does not wait for the rest of the time", append(
			burst, client{21 * ms, row(4), nil}, client{22 * ms, row(5), nil}, client{22 * ms, row(6), nil},
		), "ok 32ms ok 32ms ok 32ms]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := batching(edgewise.DynamicBatching{})
				m.Parameters = map[string]edgewise.ModelParam{delayParameter: {StringValue: delayAuto}}
				s := schedulerOf(&recorder{takes: 10 * ms}, m, Config{Instances: 1, MaxQueue: 100})
				if got := fmt.Sprint(outcome(t, s, test.clients)); !strings.HasSuffix(got, test.ends) {
					t.Errorf("ends %s, want %s", got, test.ends)
				}
				_ = s.Close()
			})
		})
	}
}

func TestOrderedResponsesWaitForEarlierOnes(t *testing.T) {
	for _, test := range []struct {
		ordered bool
		want    string
	}{{true, "[ok 30ms ok 30ms]"}, {false, "[ok 30ms ok 15ms]"}} {
		t.Run(fmt.Sprint(test.ordered), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := batching(edgewise.DynamicBatching{PreserveOrdering: test.ordered})
				s := schedulerOf(slower{}, m, Config{Instances: 2, MaxQueue: 10})
				if got := fmt.Sprint(
					outcome(t, s, []client{{0, row(30), nil}, {5 * time.Millisecond, row(10), nil}}),
				); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
				_ = s.Close()
			})
		})
	}
}

// slower takes as many milliseconds as the first byte of its input says.
type slower struct{}

func (slower) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	time.Sleep(time.Duration(in[0].Data[0]) * time.Millisecond)
	return (&recorder{}).Run(ctx, in, want, options)
}

func (slower) Close() error { return nil }

func TestBatchIsCanceledWhenAllClientsHaveLeft(t *testing.T) {
	for _, test := range []struct {
		name    string
		cancels []time.Duration
		want    error
	}{
		{"one of two", []time.Duration{12 * time.Millisecond, time.Hour}, nil},
		{"both", []time.Duration{12 * time.Millisecond, 13 * time.Millisecond}, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{takes: 10 * time.Millisecond}
				s := schedulerOf(r, batching(edgewise.DynamicBatching{}), Config{Instances: 1, MaxQueue: 10})
				clients := []client{{0, row(1), nil}}
				for i, d := range test.cancels {
					clients = append(clients, client{time.Millisecond, row(byte(i)), func(c context.Context) (
						context.Context, context.CancelFunc,
					) {
						c, cancel := context.WithCancel(c)
						time.AfterFunc(d, cancel)
						return c, cancel
					}})
				}
				outcome(t, s, clients)
				_ = s.Close()
				if len(r.ended) != 2 || !errors.Is(r.ended[1], test.want) {
					t.Errorf("contexts ended %v, want the second to be %v", r.ended, test.want)
				}
			})
		})
	}
}

func TestLastReleaseOfABatchGivesItsMemoryBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{takes: 10 * time.Millisecond}
		s := schedulerOf(r, batching(edgewise.DynamicBatching{MaxQueueDelay: 5000}), Config{Instances: 1, MaxQueue: 10})
		responses := make(chan *edgewise.Response, 2)
		for i := range 2 {
			go func() {
				response, err := s.Infer(t.Context(), row(byte(i)))
				if err != nil {
					t.Error(err)
				}
				responses <- response
			}()
		}
		for _, want := range []int{0, 1} {
			(<-responses).Release()
			if r.freed != want {
				t.Errorf("freed %d times, want %d", r.freed, want)
			}
		}
		_ = s.Close()
		if st := s.Statistics(); st.InferenceCount != 2 || st.ExecutionCount != 1 || st.Success.Count != 2 ||
			len(st.Batches) != 1 || st.Batches[0].Size != 2 || st.Closed["delay"] != 1 {
			t.Errorf("statistics %+v", st)
		}
	})
}

// priced is an instance whose runs take base and each as much as per for a row.
type priced struct {
	base, per time.Duration
	cold      *int // runs of several rows that take coldRun, as their memory is new
	fail      error
}

const coldRun = 150 * time.Millisecond

func (p priced) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	if p.fail != nil {
		return nil, p.fail
	}
	took := p.base + p.per*time.Duration(in[0].Shape[0])
	if p.cold != nil && *p.cold > 0 && in[0].Shape[0] > 1 {
		*p.cold--
		took = coldRun
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return (&recorder{}).Run(ctx, in, want, options)
}

func (priced) Close() error { return nil }

func TestBatchesThatDoNotPayAreLeftOff(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name     string
		instance priced
		change   func(*edgewise.Model)
		single   bool
	}{
		{"they pay", priced{base: ms, per: ms}, nil, false},
		{"they pay, and the first ones are slow", priced{base: 20 * ms, per: ms, cold: new(2)}, nil, false},
		{"they do not", priced{per: 10 * ms}, nil, true},
		{"they hardly pay", priced{base: ms, per: 5 * ms}, nil, true},
		{"they do not, and a run is slow", priced{per: 200 * ms}, nil, true},
		{"too slow to tell", priced{per: time.Hour}, nil, false},
		{"zeros fail", priced{fail: errors.New("no zeros")}, nil, false},
		{
			"a preferred size asks for them",
			priced{per: 10 * ms},
			func(m *edgewise.Model) { m.DynamicBatching.PreferredBatchSize = []int32{2} }, false,
		},
		{
			"a delay asks for them",
			priced{per: 10 * ms},
			func(m *edgewise.Model) { m.DynamicBatching.MaxQueueDelay = 1 }, false,
		},
		{
			"the completed default does not ask",
			priced{per: 10 * ms},
			func(m *edgewise.Model) { m.DynamicBatching.PreferredBatchSize = []int32{4} }, true,
		},
		{"an adaptive delay does not ask", priced{per: 10 * ms}, func(m *edgewise.Model) {
			m.Parameters = map[string]edgewise.ModelParam{"max_queue_delay": {StringValue: "auto"}}
		}, true},
		{
			"a variable size cannot be tried",
			priced{per: 10 * ms},
			func(m *edgewise.Model) { m.Input[0].Dims = edgewise.Shape{-1} }, false,
		},
		{"a model that does not batch", priced{base: ms}, func(m *edgewise.Model) { m.DynamicBatching = nil }, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := batching(edgewise.DynamicBatching{})
				if test.change != nil {
					test.change(m)
				}
				s := schedulerOf(test.instance, m, Config{Instances: 1, MaxQueue: 10})
				if err := s.Warm(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				if got := s.queue.single.Load(); got != test.single {
					t.Errorf("batching off: %v, want %v", got, test.single)
				}
				if st := s.Statistics(); st.ExecutionCount != 0 || len(st.Batches) != 0 ||
					slices.Max(slices.Collect(maps.Values(st.Closed))) != 0 {
					t.Errorf("the trial is in the statistics: %+v", st)
				}
				_ = s.Close()
			})
		})
	}
}

func TestLevelsWithoutTheirOwnBoundShareTheBoxs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doubler{gate: make(chan struct{})}
		m := batching(
			edgewise.DynamicBatching{
				PriorityLevels: 3, DefaultPriorityLevel: 1,
				PriorityQueuePolicy: map[string]edgewise.QueuePolicy{"3": {MaxQueueSize: 1}},
			},
		)
		s := scheduler(d, m, Config{Instances: 1, MaxQueue: 2})
		clients := busy(t, s, 1)
		send := func(priority uint64) {
			req := request(1, 2)
			req.Priority = priority
			if r, err := s.Infer(t.Context(), req); err == nil {
				r.Release()
			}
		}
		rejected := func() uint64 { return s.Statistics().Failures[edgewise.Busy] }
		for i, step := range []struct{ priority, rejected uint64 }{{2, 0}, {2, 1}, {1, 2}, {3, 2}, {3, 3}} {
			clients.Go(func() { send(step.priority) })
			synctest.Wait()
			if got := rejected(); got != step.rejected {
				t.Errorf("step %d: %d rejected, want %d", i, got, step.rejected)
			}
		}
		close(d.gate)
		clients.Wait()
		_ = s.Close()
	})
}

// TestAnyNumberOfPriorityLevels queues requests of a thousand of 2^64-1 levels: they run in the order of their levels,
// and what is empty is forgotten.
func TestAnyNumberOfPriorityLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &recorder{takes: time.Second}
		m := batching(
			edgewise.DynamicBatching{
				PriorityLevels: math.MaxUint64, DefaultPriorityLevel: math.MaxUint64 - 1,
				PreferredBatchSize: []int32{1},
			},
		)
		m.MaxBatchSize = 1
		s := schedulerOf(d, m, Config{Instances: 1, MaxQueue: 2000})
		var clients sync.WaitGroup
		send := func(mark byte, priority uint64) {
			clients.Go(func() {
				req := row(mark)
				req.Priority = priority
				if r, err := s.Infer(t.Context(), req); err == nil {
					r.Release()
				} else {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		send('0', 1) // the instance loop has it
		send('d', 0)
		send('z', math.MaxUint64)
		send('b', math.MaxUint64/2)
		send('a', 3)
		clients.Wait()
		if got := string(slices.Concat(d.batches...)); got != "0abdz" {
			t.Errorf("ran %s", got)
		}
		for i := range uint64(1000) {
			send('x', i*i*i+1)
		}
		clients.Wait()
		if n := len(s.queue.levels.list); n > keptLevels {
			t.Errorf("%d levels are kept", n)
		}
		_ = s.Close()
	})
}

func TestNothingWaitsForABatchBeforeTheVersionIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedulerOf(&recorder{}, batching(edgewise.DynamicBatching{MaxQueueDelay: 5e6, PreferredBatchSize: []int32{4}}),
			Config{Instances: 1, MaxQueue: 10})
		defer func() { _ = s.Close() }()
		start := time.Now()
		if err := s.Verify(t.Context(), row(1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Warm(t.Context(), []*edgewise.Request{row(2), row(3)}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took >= 5*time.Second {
			t.Errorf("took %v: a request waited for its batch", took)
		}
		start = time.Now()
		response, err := s.Infer(t.Context(), row(4))
		if err != nil {
			t.Fatal(err)
		}
		response.Release()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("a client's request took %v, want the delay of 5 s", took)
		}
	})
}
