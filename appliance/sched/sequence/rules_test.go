package sequence

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// player drives sequences in the order in which a test says so.
type player struct {
	t       *testing.T
	s       *Batcher
	batches bool
}

func play(t *testing.T, i edgewise.Instance, m *edgewise.Model, c sched.Config) *player {
	return &player{t, batcherOf(i, m, c, NewStateBudget(1<<20)), m.MaxBatchSize > 0}
}

// asked is a request on its way.
type asked struct {
	response *edgewise.Response
	err      error
	done     chan struct{}
	cancel   context.CancelFunc
}

// ask sends a request and waits until it is somewhere.
func (p *player) ask(id edgewise.Sequence, x int64, timeout time.Duration) *asked {
	req := step(p.batches, id, x)
	req.Timeout = timeout
	return p.request(req)
}

func (p *player) request(req *edgewise.Request) *asked {
	ctx, cancel := context.WithCancel(p.t.Context())
	a := &asked{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(a.done)
		a.response, a.err = p.s.Infer(ctx, req)
	}()
	synctest.Wait()
	return a
}

// say sends a request and wants y, or an error with a text and a kind.
func (p *player) say(id edgewise.Sequence, x, y int64) {
	p.t.Helper()
	p.ask(id, x, 0).says(p.t, y)
}

func (a *asked) says(t *testing.T, y int64) {
	t.Helper()
	<-a.done
	if a.err != nil {
		t.Fatal(a.err)
	}
	if got := said(t, a.response); got != y {
		t.Errorf("got %d, want %d", got, y)
	}
}

func (a *asked) fails(t *testing.T, kind edgewise.Kind, text string) {
	t.Helper()
	<-a.done
	if a.err == nil || edgewise.KindOf(a.err) != kind || !strings.Contains(a.err.Error(), text) {
		t.Errorf("got %v, want %v %q", a.err, kind, text)
	}
}

func (a *asked) waits(t *testing.T) {
	t.Helper()
	select {
	case <-a.done:
		t.Errorf("answered: %v", a.err)
	default:
	}
}

func (p *player) close() {
	p.t.Helper()
	if err := p.s.Close(); err != nil {
		p.t.Error(err)
	}
}

func starts(id uint64) edgewise.Sequence { return edgewise.Sequence{ID: id, Start: true} }
func goes(id uint64) edgewise.Sequence   { return edgewise.Sequence{ID: id} }
func ends(id uint64) edgewise.Sequence   { return edgewise.Sequence{ID: id, End: true} }

const startFlag = "to model 'hash' must specify the START flag on the first request of the sequence"

func TestSequenceRefuses(t *testing.T) {
	text := hashModel(4, nil)
	text.SequenceBatching.ControlInput[2].Control[0].DataType = edgewise.Bytes
	two := step(true, starts(1), 1)
	two.Inputs[0].Shape, two.Inputs[0].Data = edgewise.Shape{2, 1}, make([]byte, 16)
	tests := []struct {
		name string
		m    *edgewise.Model
		req  *edgewise.Request
		want string
	}{
		{
			"no id", hashModel(4, nil), step(true, edgewise.Sequence{Start: true}, 1),
			"inference request to model 'hash' must specify a non-zero or non-empty correlation ID",
		},
		{
			"batch", hashModel(4, nil), two,
			"inference request to model 'hash' must specify batch-size 1 due to requirements of sequence batcher",
		},
		{"not started", hashModel(4, nil), step(true, goes(42), 1), "inference request for sequence 42 " + startFlag},
		{"ends what is not started", hashModel(4, nil), step(true, ends(42), 1), "inference request for sequence 42 " +
			startFlag},
		{"not started, by name", text, step(true, edgewise.Sequence{Name: "a"}, 1), "inference request for sequence a " +
			startFlag},
		{
			"text for a number", hashModel(4, nil), step(true, edgewise.Sequence{Name: "a", Start: true}, 1),
			"sequence batching control 'CORRID' data-type is 'BYTES', but model 'hash' expects 'INT64'",
		},
		{
			"number for text", text, step(true, starts(1), 1),
			"sequence batching control 'CORRID' data-type is 'UINT64', but model 'hash' expects 'BYTES'",
		},
		{
			"long name", text, step(true, edgewise.Sequence{Name: strings.Repeat("a", MaxIDBytes+1), Start: true}, 1),
			"the correlation ID has 129 bytes, at most 128 are allowed",
		},
		{"inputs of the appliance", hashModel(4, nil), func() *edgewise.Request {
			r := step(true, starts(1), 1)
			r.Inputs = append(r.Inputs, edgewise.Tensor{
				Name: "state", Type: edgewise.Int64, Shape: edgewise.Shape{1, 1},
				Data: make([]byte, 8),
			})
			return r
		}(), "expected 1 inputs but got 2 inputs"},
		{"outputs of the appliance", hashModel(4, nil), func() *edgewise.Request {
			r := step(true, starts(1), 1)
			r.Outputs = []string{"next"}
			return r
		}(), "unexpected inference output 'next'"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := batcherOf(&hasher{}, test.m, sched.Config{MaxQueue: 10}, nil)
			_, err := s.Infer(t.Context(), test.req)
			if err == nil || edgewise.KindOf(err) != edgewise.Invalid || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if st := s.Statistics(); st.Fail.Count != 1 || st.Sequences.Live != 0 {
				t.Errorf("statistics %+v %+v", st, st.Sequences)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// everyStrategy runs a test with each strategy, with and without batches.
func everyStrategy(t *testing.T, test func(t *testing.T, m *edgewise.Model)) {
	for name, edit := range map[string]func(*edgewise.SequenceBatching){
		"default": nil, "direct": direct(0, 0),
		"oldest": oldest(1),
	} {
		for _, batch := range []int32{0, 1, 8} {
			t.Run(fmt.Sprintf("%s/%d", name, batch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, hashModel(batch, edit)) })
			})
		}
	}
}

func TestSequenceFromStartToEnd(t *testing.T) {
	everyStrategy(t, func(t *testing.T, m *edgewise.Model) {
		p := play(t, &hasher{}, m, sched.Config{MaxQueue: 10})
		defer p.close()
		p.say(starts(1), 5, 31+5)
		p.say(goes(1), 7, 31*36+7)
		p.say(starts(1), 5, 31+5) // again, before its end
		p.say(ends(1), 7, 31*36+7)
		p.ask(goes(1), 1, 0).fails(t, edgewise.Invalid, "sequence 1 "+startFlag)
		p.say(edgewise.Sequence{ID: 1, Start: true, End: true}, 2, 31+2)
		p.ask(ends(1), 1, 0).fails(t, edgewise.Invalid, "sequence 1 "+startFlag)
		st := p.s.Statistics()
		if *st.Sequences != (edgewise.SequenceStatistics{Restarted: 1}) || st.Success.Count != 5 || st.Fail.Count != 2 ||
			st.InferenceCount != 5 {
			t.Errorf("statistics %+v %+v", st, st.Sequences)
		}
	})
}

func TestSequenceIsForgottenWhenNothingComes(t *testing.T) {
	everyStrategy(t, func(t *testing.T, m *edgewise.Model) {
		p := play(t, &hasher{}, m, sched.Config{MaxQueue: 10})
		defer p.close()
		p.say(starts(1), 5, 31+5)
		time.Sleep(time.Second - 1)
		p.say(goes(1), 7, 31*36+7)
		time.Sleep(time.Second)
		p.ask(goes(1), 7, 0).fails(t, edgewise.Invalid, "sequence 1 "+startFlag)
		if st := p.s.Statistics(); *st.Sequences != (edgewise.SequenceStatistics{Expired: 1}) {
			t.Errorf("statistics %+v", st.Sequences)
		}
	})
}

// TestBacklog has one slot: sequences wait for it in the order of their beginnings, whatever else they send.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, &hasher{}, hashModel(0, nil), sched.Config{MaxQueue: 4})
		defer p.close()
		p.say(starts(1), 5, 31+5)
		second, third := p.ask(starts(2), 3, 0), p.ask(starts(3), 4, 0)
		after := p.ask(ends(2), 1, 0)
		second.waits(t)
		if st := p.s.Statistics(); st.Sequences.Live != 1 || st.Sequences.Backlog != 2 || st.Pending != 3 {
			t.Errorf("statistics %+v %+v", st, st.Sequences)
		}
		fourth := p.ask(starts(4), 1, 0)
		p.ask(starts(5), 1, 0).fails(t, edgewise.Busy, "Exceeds maximum queue size")
		p.ask(goes(1), 1, 0).fails(t, edgewise.Busy, "Exceeds maximum queue size")
		fourth.cancel()
		fourth.fails(t, edgewise.Canceled, "context canceled")
		p.say(ends(1), 7, 31*36+7)
		second.says(t, 31+3)
		after.says(t, 31*34+1)
		third.says(t, 31+4)
		p.say(ends(3), 7, 31*35+7)
	})
}

// TestBacklogGetsTheSlotOfAnIdleSequence lets one wait until another one expires.
func TestBacklogGetsTheSlotOfAnIdleSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, &hasher{}, hashModel(0, nil), sched.Config{MaxQueue: 4})
		defer p.close()
		p.say(starts(1), 5, 31+5)
		begin := time.Now()
		p.say(starts(2), 5, 31+5)
		if waited := time.Since(begin); waited != time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestTimeInTheBacklog(t *testing.T) {
	const over = "timeout of the corresponding sequence has been expired"
	synctest.Test(t, func(t *testing.T) {
		p := play(t, &hasher{}, hashModel(0, nil), sched.Config{MaxQueue: 9})
		defer p.close()
		p.say(starts(1), 5, 31+5)
		begin := time.Now()
		patient := p.ask(starts(2), 1, 0)
		hasty, behind := p.ask(starts(3), 1, 100*time.Millisecond), p.ask(goes(3), 1, 0)
		hasty.fails(t, edgewise.Unavailable, over)
		behind.fails(t, edgewise.Unavailable, over)
		if waited := time.Since(begin); waited != 100*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
		p.ask(goes(3), 1, 0).fails(t, edgewise.Invalid, startFlag)
		hasty, behind = p.ask(starts(4), 1, 200*time.Millisecond), p.ask(goes(4), 1, 300*time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		hastier := p.ask(goes(4), 1, 50*time.Millisecond)
		hasty.fails(t, edgewise.Unavailable, over)
		behind.fails(t, edgewise.Unavailable, over)
		hastier.fails(t, edgewise.Unavailable, over)
		if waited := time.Since(begin); waited != 200*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
		p.ask(goes(4), 1, 0).fails(t, edgewise.Invalid, startFlag)
		patient.waits(t)
		p.say(ends(1), 7, 31*36+7)
		patient.says(t, 31+1)
	})
}

// TestTimeInTheBacklogAfterAWithdrawal takes the request back that allowed its sequence the least time.
func TestTimeInTheBacklogAfterAWithdrawal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, &hasher{}, hashModel(0, nil), sched.Config{MaxQueue: 9})
		defer p.close()
		p.say(starts(1), 5, 31+5)
		begin := time.Now()
		patient, hasty := p.ask(starts(2), 1, 300*time.Millisecond), p.ask(goes(2), 1, 100*time.Millisecond)
		time.Sleep(50 * time.Millisecond)
		hasty.cancel()
		hasty.fails(t, edgewise.Canceled, "context canceled")
		patient.fails(t, edgewise.Unavailable, "timeout of the corresponding sequence has been expired")
		if waited := time.Since(begin); waited != 300*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
		p.say(ends(1), 7, 31*36+7)
	})
}

// TestCanceledRequestEndsItsSequence cancels one in the middle: what came before is answered, what comes after is not.
func TestCanceledRequestEndsItsSequence(t *testing.T) {
	everyStrategy(t, func(t *testing.T, m *edgewise.Model) {
		p := play(t, &hasher{delay: 10 * time.Millisecond}, m, sched.Config{MaxQueue: 9})
		defer p.close()
		first, second := p.ask(starts(1), 5, 0), p.ask(goes(1), 7, 0)
		third, fourth, fifth := p.ask(goes(1), 1, 0), p.ask(goes(1), 2, 0), p.ask(starts(1), 3, 0)
		third.cancel()
		third.fails(t, edgewise.Canceled, "context canceled")
		fourth.fails(t, edgewise.Canceled,
			"inference request for sequence 1 to model 'hash': an earlier request of the sequence was canceled")
		first.says(t, 31+5)
		second.says(t, 31*36+7)
		fifth.says(t, 31+3) // it starts again
		running, behind := p.ask(goes(1), 1, 0), p.ask(goes(1), 1, 0)
		running.cancel()
		running.fails(t, edgewise.Canceled, "context canceled")
		behind.fails(t, edgewise.Canceled, "an earlier request of the sequence was canceled")
		p.ask(goes(1), 1, 0).fails(t, edgewise.Invalid, startFlag)
		if st := p.s.Statistics(); st.Sequences.Live != 0 {
			t.Errorf("statistics %+v", st.Sequences)
		}
	})
}

// TestFailedRequestLeavesItsSequenceAsItWas sends requests that fail and that panic.
func TestFailedRequestLeavesItsSequenceAsItWas(t *testing.T) {
	everyStrategy(t, func(t *testing.T, m *edgewise.Model) {
		p := play(t, &hasher{}, m, sched.Config{MaxQueue: 9})
		defer p.close()
		p.say(starts(1), 5, 31+5)
		p.ask(goes(1), hashFails, 0).fails(t, edgewise.Internal, "bad row")
		p.ask(goes(1), hashPanics, 0).fails(t, edgewise.Internal, "panicked")
		p.say(goes(1), 7, 31*36+7)
	})
}

// TestSequencesSurviveAResize takes instances away and adds some: sequences go on, and only new ones wait.
func TestSequencesSurviveAResize(t *testing.T) {
	for _, batch := range []int32{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			m := hashModel(batch, nil)
			m.InstanceGroup[0].Count = 2
			p := play(t, &hasher{}, m, sched.Config{MaxQueue: 9})
			defer p.close()
			many := uint64(2 * max(batch, 1))
			for id := range many {
				p.say(starts(id+1), 5, 31+5)
			}
			fewer := hashModel(batch, nil)
			p.s.Resize(1, fewer)
			for id := range many {
				p.say(goes(id+1), 7, 31*36+7)
			}
			waiting := p.ask(starts(99), 1, 0)
			for id := range many / 2 {
				p.say(ends(id+1), 0, 31*(31*36+7))
			}
			if batch == 0 {
				waiting.waits(t) // one of two has ended, and there is one slot
			}
			p.s.Resize(2, m)
			waiting.says(t, 31+1)
			for id := range many / 2 {
				p.say(ends(many/2+id+1), 0, 31*(31*36+7))
			}
		})
	}
}

func TestDrain(t *testing.T) {
	everyStrategy(t, func(t *testing.T, m *edgewise.Model) {
		p := play(t, &hasher{}, m, sched.Config{MaxQueue: 9})
		defer p.close()
		p.say(starts(1), 5, 31+5)
		if !p.s.Holds(goes(1)) || p.s.Holds(goes(2)) {
			t.Error("holds the wrong ones")
		}
		drained := make(chan error, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		go func() { drained <- p.s.Drain(ctx) }()
		synctest.Wait()
		const stopping = "Server is stopping, scheduler for model has stopped accepting new inference requests"
		p.ask(starts(2), 5, 0).fails(t, edgewise.Unavailable, stopping)
		p.ask(starts(1), 5, 0).fails(t, edgewise.Unavailable, stopping)
		p.say(goes(1), 7, 31*36+7)
		if err := <-drained; err == nil {
			t.Error("drained with a sequence in progress")
		}
		go func() { drained <- p.s.Drain(t.Context()) }()
		synctest.Wait()
		p.say(ends(1), 0, 31*(31*36+7))
		if err := <-drained; err != nil || p.s.Holds(goes(1)) {
			t.Errorf("drained: %v", err)
		}
		if err := p.s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestCloseAnswersWhatWaits closes while one runs, one waits behind it and one is in the backlog.
func TestCloseAnswersWhatWaits(t *testing.T) {
	everyStrategy(t, func(t *testing.T, m *edgewise.Model) {
		p := play(t, &hasher{delay: 10 * time.Millisecond}, m, sched.Config{MaxQueue: 30})
		runs, behind := p.ask(starts(1), 5, 0), p.ask(ends(1), 7, 0)
		var others []*asked
		for id := range uint64(9) {
			others = append(others, p.ask(starts(id+2), 1, 0))
		}
		closed := make(chan error)
		go func() { closed <- p.s.Close() }()
		synctest.Wait()
		p.ask(starts(99), 5, 0).fails(t, edgewise.Unavailable, "is being unloaded")
		runs.says(t, 31+5)
		behind.says(t, 31*36+7)
		for _, o := range others {
			o.says(t, 31+1)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}
