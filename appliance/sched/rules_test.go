package sched

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// The rules of the queue. Each is a row of the table below, unless another test is named.
//
//  1. A free instance loop takes what is queued at once, a single request too.
//  2. What queues while all instance loops are busy runs together.
//  3. A batch has at most max_batch_size elements; a request is never split over two.
//  4. Requests are served in order within a level.
//  5. The first request with other shapes or other inputs begins the next batch. Other wanted outputs do not:
//     TestEachRequestOfABatchGetsTheOutputsThatItWants.
//  6. Without a delay the largest preferred size that is there runs, and what is there when none is.
//  7. With a delay the oldest request waits that long for more requests, and no longer.
//  8. A delay ends at a preferred size, at max_batch_size, at a request that does not fit, and when the version is closed.
//  9. A delay takes at most half of the time that a request or its client's deadline allows. A timeout of the queue's
//     policy does not end it: it refuses, as in Triton.
//  10. Levels are served strictly in order; a priority of 0 or out of range is the default level.
//  11. DELAY: overdue requests wait behind the others of their level. REJECT: they are refused at once. What this
//     leaves at the front runs at once: TestAnOverdueRequestStepsAsideInTime.
//  12. A request's own timeout counts without any configuration; with one as in TestQueuedRequestIsWithdrawn.
//  13. A request that is cancelled or past its deadline leaves the queue at once.
//  14. A level has room for max_queue_size requests, the others share the configured bound:
//     TestLevelsWithoutTheirOwnBoundShareTheBoxs, TestFullQueueRefusesAtOnce, TestModelsOwnQueueSizeGoesFirst.
//  15. preserve_ordering: answers leave in order, also behind one that failed: TestOrderedResponsesWaitForEarlierOnes.
//  16. A batch that fails is run again request by request.
//  17. A batch is cancelled when none waits for any of its requests: TestBatchIsCanceledWhenAllClientsHaveLeft.
//  18. Outputs that cannot be split end batching.
//  19. An adaptive delay: TestAnAdaptiveDelayNeverKeepsASingleClientWaiting.
//  20. Nothing runs without cores: TestRulesWhileCoresAreTaken, TestRunningThreadsNeverExceedTheCores.
//  21. Instances come and go while requests are served: TestInstancesChangeUnderLoad.
//  22. Padding: TestRulesOfPadding.
//  23. Each batch is counted by why it was closed, in the last column.
//  24. Close runs what is queued and refuses what comes: TestCloseRunsWhatIsQueued.
func TestRulesOfTheQueue(t *testing.T) {
	const ms = time.Millisecond
	us := func(n uint64) uint64 { return n * 1000 }
	with := func(req *edgewise.Request, priority uint64, timeout time.Duration) *edgewise.Request {
		req.Priority, req.Timeout = priority, timeout
		return req
	}
	cancelAfter := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(c context.Context) (context.Context, context.CancelFunc) {
			c, cancel := context.WithCancel(c)
			time.AfterFunc(d, cancel)
			return c, cancel
		}
	}
	levels := edgewise.DynamicBatching{PriorityLevels: 3, DefaultPriorityLevel: 2}
	delays := edgewise.DynamicBatching{
		DefaultQueuePolicy: &edgewise.QueuePolicy{
			TimeoutAction: "DELAY", DefaultTimeout: us(5), AllowTimeoutOverride: true,
		},
	}
	policy := func(p edgewise.QueuePolicy, preferred ...int32) edgewise.DynamicBatching {
		return edgewise.DynamicBatching{MaxQueueDelay: us(50), DefaultQueuePolicy: &p, PreferredBatchSize: preferred}
	}
	wide := func(mark byte, rows int) *edgewise.Request {
		req := request(make([]float32, 2*rows)...)
		for i := range rows {
			req.Inputs[0].Data[8*i] = mark
		}
		return req
	}
	wants := func(mark byte) *edgewise.Request {
		req := row(mark)
		req.Outputs = []string{"y", "y"} // as good as another output
		return req
	}
	until := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(c context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(c, d) }
	}
	tests := []struct {
		name     string
		batching edgewise.DynamicBatching
		instance *recorder
		clients  []client
		batches  string
		ends     string
		closed   string // reasons, as often as they were counted
	}{
		{
			"a single request does not wait",
			edgewise.DynamicBatching{},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}},
			"[[1]]", "[ok 10ms]", "idle",
		},
		{
			"what queues while the instance loop is busy runs together",
			edgewise.DynamicBatching{},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {1 * ms, row(2), nil}, {2 * ms, row(3), nil}, {3 * ms, row(4), nil}},
			"[[1] [2 3 4]]", "[ok 10ms ok 20ms ok 20ms ok 20ms]", "idle idle",
		},
		{
			"no more than max_batch_size",
			edgewise.DynamicBatching{},
			&recorder{takes: 10 * ms},
			[]client{
				{0, row(1), nil},
				{1 * ms, row(2), nil},
				{2 * ms, row(3), nil},
				{3 * ms, row(4), nil},
				{4 * ms, row(5), nil},
				{5 * ms, row(6), nil},
			},
			"[[1] [2 3 4 5] [6]]", "[ok 10ms ok 20ms ok 20ms ok 20ms ok 20ms ok 30ms]", "full idle idle",
		},
		{
			"a delay collects",
			edgewise.DynamicBatching{MaxQueueDelay: us(5)},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {3 * ms, row(2), nil}, {6 * ms, row(3), nil}},
			"[[1 2] [3]]", "[ok 15ms ok 15ms ok 25ms]", "delay delay",
		},
		{
			"a delay ends at a preferred size",
			edgewise.DynamicBatching{MaxQueueDelay: us(50), PreferredBatchSize: []int32{2}},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {3 * ms, row(2), nil}},
			"[[1 2]]", "[ok 13ms ok 13ms]", "preferred",
		},
		{
			"a delay takes half of a request's timeout",
			edgewise.DynamicBatching{MaxQueueDelay: us(50)},
			&recorder{takes: 10 * ms},
			[]client{{0, with(row(1), 0, 20*ms), nil}},
			"[[1]]", "[ok 20ms]", "deadline",
		},
		{
			"requests run together though their timeouts are shorter than the delay",
			edgewise.DynamicBatching{MaxQueueDelay: us(50)},
			&recorder{takes: 10 * ms},
			[]client{
				{0, with(row(1), 0, 20*ms), nil},
				{3 * ms, with(row(2), 0, 20*ms), nil},
				{9 * ms, with(row(3), 0, 20*ms), nil},
			},
			"[[1 2 3]]", "[ok 20ms ok 20ms ok 20ms]", "deadline",
		},
		{
			"a policy's timeout that is shorter than the delay refuses",
			policy(edgewise.QueuePolicy{DefaultTimeout: us(20)}),
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}},
			"[]", "[unavailable 20ms]", "",
		},
		{
			"a policy's timeout that is shorter than the delay leaves batches as they are",
			policy(edgewise.QueuePolicy{DefaultTimeout: us(20)}),
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {18 * ms, wide(2, 2), nil}, {25 * ms, wide(3, 2), nil}},
			"[[2 2 3 3]]", "[unavailable 20ms ok 35ms ok 35ms]", "full",
		},
		{
			"a request's own timeout under a policy refuses",
			policy(edgewise.QueuePolicy{DefaultTimeout: us(40), AllowTimeoutOverride: true}),
			&recorder{takes: 10 * ms},
			[]client{{0, with(row(1), 0, 10*ms), nil}, {1 * ms, row(2), nil}},
			"[]", "[unavailable 10ms unavailable 41ms]", "",
		},
		{
			"priorities are strict", levels, &recorder{takes: 10 * ms},
			[]client{
				{0, request(make([]float32, 8)...), nil},
				{1 * ms, with(row(3), 3, 0), nil},
				{2 * ms, with(row(9), 9, 0), nil},
				{3 * ms, row(2), nil},
				{4 * ms, with(row(1), 1, 0), nil},
				{5 * ms, with(row(4), 2, 0), nil},
			},
			"[[0 0 0 0] [1 9 2 4] [3]]", "[ok 10ms ok 30ms ok 20ms ok 20ms ok 20ms ok 20ms]", "full full idle",
		},
		{
			"overdue requests wait behind the others", delays, &recorder{takes: 10 * ms},
			[]client{
				{0, request(make([]float32, 8)...), nil},
				{1 * ms, with(row(1), 0, 2*ms), nil},
				{6 * ms, request(make([]float32, 8)...), nil},
			},
			"[[0 0 0 0] [0 0 0 0] [1]]", "[ok 10ms ok 30ms ok 20ms]", "full full idle",
		},
		{
			"overdue requests are refused",
			edgewise.DynamicBatching{},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {1 * ms, with(row(2), 0, 2*ms), nil}, {2 * ms, row(3), nil}},
			"[[1] [3]]", "[ok 10ms unavailable 3ms ok 20ms]", "idle idle",
		},
		{
			"a canceled request leaves the queue",
			edgewise.DynamicBatching{},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {1 * ms, row(2), cancelAfter(2 * ms)}, {2 * ms, row(3), nil}},
			"[[1] [3]]", "[ok 10ms canceled 3ms ok 20ms]", "idle idle",
		},
		{
			"one bad request costs its neighbours time",
			edgewise.DynamicBatching{},
			&recorder{takes: 10 * ms, fails: 3},
			[]client{{0, row(1), nil}, {1 * ms, row(2), nil}, {2 * ms, row(3), nil}, {3 * ms, row(4), nil}},
			"[[1] [2 3 4] [2] [3] [4]]", "[ok 10ms ok 30ms internal 40ms ok 50ms]", "idle idle",
		},
		{
			"outputs that cannot be split end batching",
			edgewise.DynamicBatching{},
			&recorder{takes: 10 * ms, alone: true},
			[]client{
				{0, row(1), nil},
				{1 * ms, row(2), nil},
				{2 * ms, row(3), nil},
				{35 * ms, row(4), nil},
				{36 * ms, row(5), nil},
			},
			"[[1] [2 3] [2] [3] [4] [5]]", "[ok 10ms ok 30ms ok 40ms ok 50ms ok 60ms]", "idle idle off off",
		},
		{
			"a request is never split",
			edgewise.DynamicBatching{},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {1 * ms, wide(2, 3), nil}, {2 * ms, wide(3, 2), nil}, {3 * ms, row(4), nil}},
			"[[1] [2 2 2] [3 3 4]]", "[ok 10ms ok 20ms ok 30ms ok 30ms]", "full idle idle",
		},
		{
			"other wanted outputs run together",
			edgewise.DynamicBatching{},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {1 * ms, row(2), nil}, {2 * ms, wants(3), nil}, {3 * ms, row(4), nil}},
			"[[1] [2 3 4]]", "[ok 10ms ok 20ms ok 20ms ok 20ms]", "idle idle",
		},
		{
			"without a delay the largest preferred size that is there",
			edgewise.DynamicBatching{PreferredBatchSize: []int32{2}},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {1 * ms, row(2), nil}, {2 * ms, row(3), nil}, {3 * ms, row(4), nil}},
			"[[1] [2 3] [4]]", "[ok 10ms ok 20ms ok 20ms ok 30ms]", "preferred idle idle",
		},
		{
			"a delay ends at max_batch_size",
			edgewise.DynamicBatching{MaxQueueDelay: us(50)},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {2 * ms, wide(2, 3), nil}},
			"[[1 2 2 2]]", "[ok 12ms ok 12ms]", "full",
		},
		{
			"a delay ends at a request that would exceed it",
			edgewise.DynamicBatching{MaxQueueDelay: us(50)},
			&recorder{takes: 10 * ms},
			[]client{{0, wide(1, 2), nil}, {2 * ms, wide(2, 3), nil}},
			"[[1 1] [2 2 2]]", "[ok 12ms ok 62ms]", "full delay",
		},
		{
			"a delay does not outlive the client's deadline",
			edgewise.DynamicBatching{MaxQueueDelay: us(50)},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), until(30 * ms)}},
			"[[1]]", "[ok 25ms]", "deadline",
		},
		{
			"a deadline that passes takes the request out of the queue",
			edgewise.DynamicBatching{},
			&recorder{takes: 10 * ms},
			[]client{{0, row(1), nil}, {1 * ms, row(2), until(2 * ms)}, {2 * ms, row(3), nil}},
			"[[1] [3]]", "[ok 10ms deadline 3ms ok 20ms]", "idle idle",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := test.instance
				s := schedulerOf(r, batching(test.batching), Config{Instances: 1, MaxQueue: 100})
				ends := outcome(t, s, test.clients)
				_ = s.Close()
				if got := fmt.Sprint(r.batches); got != test.batches {
					t.Errorf("batches %s, want %s", got, test.batches)
				}
				if got := fmt.Sprint(ends); got != test.ends {
					t.Errorf("ends %s, want %s", got, test.ends)
				}
				if got := closedAs(s); got != test.closed {
					t.Errorf("closed %q, want %q", got, test.closed)
				}
			})
		})
	}
}

// TestAnOverdueRequestStepsAsideInTime has a request between two others whose sizes make a preferred batch without it.
func TestAnOverdueRequestStepsAsideInTime(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := batching(edgewise.DynamicBatching{
			MaxQueueDelay: 50_000, PreferredBatchSize: []int32{4, 8},
			DefaultQueuePolicy: &edgewise.QueuePolicy{
				TimeoutAction: "DELAY", DefaultTimeout: 60_000, AllowTimeoutOverride: true,
			},
		})
		m.MaxBatchSize = 8
		r := &recorder{takes: 10 * ms}
		s := schedulerOf(r, m, Config{Instances: 1, MaxQueue: 100})
		first, overdue, last := request(1, 1, 1, 1), request(2, 2), request(3, 3, 3, 3)
		overdue.Timeout = 10 * ms
		ends := outcome(t, s, []client{{0, first, nil}, {ms, overdue, nil}, {2 * ms, last, nil}})
		_ = s.Close()
		if got := fmt.Sprint(ends, " ", closedAs(s)); got != "[ok 21ms ok 61ms ok 21ms] preferred delay" {
			t.Errorf("got %s", got)
		}
	})
}

// closedAs lists why batches were closed.
func closedAs(s *Scheduler) string {
	var list []string
	closed := s.Statistics().Closed
	for _, reason := range closeReasonNames {
		list = append(list, slices.Repeat([]string{reason}, int(closed[reason]))...)
	}
	return strings.Join(list, " ")
}

func TestCloseRunsWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{takes: 10 * time.Millisecond}
		s := schedulerOf(
			r, batching(edgewise.DynamicBatching{MaxQueueDelay: 1_000_000}), Config{Instances: 1, MaxQueue: 100},
		)
		time.AfterFunc(5*time.Millisecond, func() { _ = s.Close() })
		ends := outcome(
			t, s, []client{{0, row(1), nil}, {time.Millisecond, row(2), nil}, {6 * time.Millisecond, row(3), nil}},
		)
		if got := fmt.Sprint(ends, r.batches); got != "[ok 15ms ok 15ms unavailable 6ms] [[1 2]]" {
			t.Errorf("got %s", got)
		}
	})
}
