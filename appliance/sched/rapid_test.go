package sched

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// mirror is an instance that returns its inputs, x as y and s as t, after a while. It fails or panics when a row of x
// begins with a marker, and it keeps what it returned in memory that it scribbles over when it is freed.
type mirror struct {
	mu      sync.Mutex
	inUse   int
	largest int
	delay   time.Duration
}

const (
	rowFails  = 250
	rowPanics = 251
)

func (m *mirror) Run(ctx context.Context, in []edgewise.Tensor, want []string,
	options edgewise.RunOptions,
) (*edgewise.Result, error) {
	if m.delay > 0 {
		select {
		case <-time.After(m.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	x := in[0]
	width := len(x.Data) / int(x.Shape[0])
	for at := 0; at < len(x.Data); at += width {
		switch x.Data[at] {
		case rowFails:
			return nil, errors.New("bad row")
		case rowPanics:
			panic("worse row")
		}
	}
	m.mu.Lock()
	m.inUse++
	m.largest = max(m.largest, int(x.Shape[0]))
	m.mu.Unlock()
	var outputs []edgewise.Tensor
	for _, name := range want {
		from := in[0]
		if name == "t" {
			from = in[1]
		}
		outputs = append(
			outputs,
			edgewise.Tensor{
				Name: name, Type: from.Type, Shape: slices.Clone(from.Shape), Data: slices.Clone(from.Data),
			},
		)
	}
	return &edgewise.Result{Outputs: outputs, Free: func() {
		for _, t := range outputs {
			clear(t.Data)
		}
		m.mu.Lock()
		m.inUse--
		m.mu.Unlock()
	}}, nil
}

func (m *mirror) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse != 0 {
		return errors.New("closed with results in use")
	}
	return nil
}

func mirrorModel(b *edgewise.DynamicBatching) *edgewise.Model {
	return &edgewise.Model{
		Name: "mirror", MaxBatchSize: 8, DynamicBatching: b,
		Input: []edgewise.ModelInput{
			{Name: "x", DataType: edgewise.Uint8, Dims: edgewise.Shape{-1}},
			{Name: "s", DataType: edgewise.Bytes, Dims: edgewise.Shape{2}},
		},
		Output: []edgewise.ModelOutput{
			{Name: "y", DataType: edgewise.Uint8, Dims: edgewise.Shape{-1}},
			{Name: "t", DataType: edgewise.Bytes, Dims: edgewise.Shape{2}},
		},
	}
}

// drawn is one client's request and how it behaves.
type drawn struct {
	arrives           time.Duration
	cancels, deadline time.Duration // 0: never
	holds             time.Duration // how long it reads the answer
	marker            byte
	request           *edgewise.Request
}

func drawRequest(t *rapid.T, id int) drawn {
	d := drawn{
		arrives: time.Duration(rapid.IntRange(0, 20).Draw(t, "arrives")) * time.Millisecond,
		holds:   time.Duration(rapid.IntRange(0, 10).Draw(t, "holds")) * time.Millisecond,
	}
	switch rapid.IntRange(0, 5).Draw(t, "mind") {
	case 0:
		d.cancels = time.Duration(rapid.IntRange(1, 15).Draw(t, "cancels")) * time.Millisecond
	case 1:
		d.deadline = time.Duration(rapid.IntRange(1, 15).Draw(t, "deadline")) * time.Millisecond
	}
	batch, width := rapid.IntRange(1, 8).Draw(t, "batch"), rapid.IntRange(1, 2).Draw(t, "width")
	r := rand.New(rand.NewPCG(uint64(id), 7))
	x := make([]byte, batch*width)
	for i := range x {
		x[i] = byte(r.IntN(250))
	}
	if d.marker = rapid.SampledFrom([]byte{0, 0, 0, 0, 0, 0, rowFails, rowPanics}).Draw(t, "marker"); d.marker != 0 {
		x[(batch-1)*width] = d.marker
	}
	var s []byte
	for range 2 * batch {
		s = edgewise.AppendElement(s, string(make([]byte, r.IntN(4)))+string(rune('a'+id%26)))
	}
	inputs := []edgewise.Tensor{
		{Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{int64(batch), int64(width)}, Data: x},
		{Name: "s", Type: edgewise.Bytes, Shape: edgewise.Shape{int64(batch), 2}, Data: s},
	}
	if rapid.Bool().Draw(t, "swapped") {
		slices.Reverse(inputs)
	}
	d.request = &edgewise.Request{
		Inputs: inputs, Outputs: rapid.SampledFrom([][]string{nil, {"y"}, {"t", "y"}}).Draw(t, "outputs"),
		Priority: rapid.Uint64Range(0, 4).Draw(t, "priority"),
		Timeout:  time.Duration(rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "timeout")) * time.Millisecond,
	}
	return d
}

func drawBatching(t *rapid.T) *edgewise.DynamicBatching {
	policy := edgewise.QueuePolicy{TimeoutAction: "REJECT"}
	b := &edgewise.DynamicBatching{
		PreferredBatchSize: rapid.SampledFrom([][]int32{{8}, {4}, {2, 6}}).Draw(t, "preferred"),
		MaxQueueDelay:      rapid.SampledFrom([]uint64{0, 2000}).Draw(t, "delay"),
		DefaultQueuePolicy: &policy,
	}
	if rapid.Bool().Draw(t, "ordered") {
		b.PreserveOrdering = true
		return b
	}
	b.PriorityLevels, b.DefaultPriorityLevel = 3, 2
	b.PriorityQueuePolicy = map[string]edgewise.QueuePolicy{"3": {TimeoutAction: "DELAY", DefaultTimeout: 4000}}
	return b
}

func TestEveryRequestGetsOneAnswerItsOwn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := mirrorModel(drawBatching(rt))
		if rapid.Bool().Draw(rt, "auto") {
			m.Parameters = map[string]edgewise.ModelParam{delayParameter: {StringValue: delayAuto}}
		}
		c := Config{
			Instances: rapid.IntRange(1, 3).Draw(rt, "instances"), MaxQueue: rapid.IntRange(1, 30).Draw(rt, "queue"),
			Cores: cores.New(rapid.IntRange(1, 3).Draw(rt, "cores")), Threads: rapid.IntRange(0, 2).Draw(rt, "threads"),
		}
		resizes := rapid.SliceOfN(rapid.IntRange(1, 4), 0, 4).Draw(rt, "resizes")
		instance := &mirror{delay: time.Duration(rapid.IntRange(0, 5).Draw(rt, "run")) * time.Millisecond}
		var requests []drawn
		for id := range rapid.IntRange(1, 30).Draw(rt, "requests") {
			requests = append(requests, drawRequest(rt, id))
		}
		synctest.Test(t, func(t *testing.T) {
			s := schedulerOf(instance, m, c)
			var clients sync.WaitGroup
			for _, d := range requests {
				clients.Go(func() { d.run(t, s) })
			}
			for _, n := range resizes {
				time.Sleep(4 * time.Millisecond)
				s.Resize(n)
			}
			clients.Wait()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			st := s.Statistics()
			if st.Pending != 0 || st.Success.Count+st.Fail.Count != uint64(len(requests)) || instance.largest > 8 {
				t.Errorf("%d requests, largest batch %d, statistics %+v", len(requests), instance.largest, st)
			}
		})
	})
}

func (d drawn) run(t *testing.T, s *Scheduler) {
	time.Sleep(d.arrives)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if d.cancels > 0 {
		time.AfterFunc(d.cancels, cancel)
	}
	if d.deadline > 0 {
		ctx, cancel = context.WithTimeout(ctx, d.deadline)
		defer cancel()
	}
	response, err := s.Infer(ctx, d.request)
	if err != nil {
		d.judge(t, err)
		return
	}
	time.Sleep(d.holds)
	if d.marker != 0 {
		t.Error("a request that fails alone was answered")
	}
	names := d.request.Outputs
	if names == nil {
		names = []string{"y", "t"}
	}
	for i, name := range names {
		want := d.request.Inputs[slices.IndexFunc(
			d.request.Inputs,
			func(in edgewise.Tensor) bool { return in.Name == map[string]string{"y": "x", "t": "s"}[name] },
		)]
		out := response.Outputs[i]
		if out.Name != name || !out.Shape.Equal(want.Shape) || !bytes.Equal(out.Data, want.Data) {
			t.Errorf("output %s: got %v %v, want %v %v", name, out.Shape, out.Data, want.Shape, want.Data)
		}
	}
	response.Release()
}

// judge tells whether a failure is one that this request may have.
func (d drawn) judge(t *testing.T, err error) {
	switch edgewise.KindOf(err) {
	case edgewise.Canceled:
		if d.cancels == 0 {
			t.Errorf("a request that no client canceled: %v", err)
		}
	case edgewise.Deadline:
		if d.deadline == 0 {
			t.Errorf("a request without a deadline: %v", err)
		}
	case edgewise.Internal:
		if d.marker == 0 {
			t.Errorf("a good request fails: %v", err)
		}
	case edgewise.Busy:
	case edgewise.Unavailable:
		if d.request.Timeout == 0 && d.request.Priority != 3 {
			t.Errorf("a request without a timeout: %v", err)
		}
	default:
		t.Error(err)
	}
}
