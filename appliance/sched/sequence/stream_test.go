package sequence

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// reciter answers a request with x responses, one a second, which say the sequence, and then an end. It returns from
// Answer before that, as a backend does that runs in a process.
type reciter struct {
	hasher
	mu   sync.Mutex // guards said
	said []string   // what it was told, and the ends of its calls
}

func (r *reciter) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *reciter) Answer(_ context.Context, calls []*edgewise.Call) error {
	for _, c := range calls {
		of := map[string]int64{}
		for _, in := range c.Request.Inputs {
			switch in.Type {
			case edgewise.Bool:
				of[in.Name] = int64(in.Data[0])
			default:
				of[in.Name] = int64(binary.LittleEndian.Uint64(in.Data))
			}
		}
		r.note("%d: start %d, ready %d", of["CORRID"], of["START"], of["READY"])
		if s := c.Request.Sequence; s.ID != uint64(of["CORRID"]) || s.Start != (of["START"] == 1) {
			r.note("the request is of sequence %+v", s)
		}
		go func() {
			shape := c.Request.Inputs[0].Shape
			for range of["x"] {
				time.Sleep(time.Second)
				data := binary.LittleEndian.AppendUint64(nil, uint64(of["CORRID"]))
				out := []edgewise.Tensor{{Name: "y", Type: edgewise.Int64, Shape: slices.Clone(shape), Data: data}}
				if err := c.Answer(&edgewise.Result{Outputs: out, Free: func() {}}, false, nil); err != nil {
					break
				}
			}
			r.note("%d: end", of["CORRID"])
			_ = c.Answer(nil, true, nil)
		}()
	}
	return nil
}

func reciteModel(batch int32, edit func(*edgewise.SequenceBatching)) *edgewise.Model {
	m := hashModel(batch, edit)
	m.SequenceBatching.State = nil
	m.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
	return m
}

// recited is a request whose responses are counted.
type recited struct {
	*asked
	responses int
}

func (p *player) recite(id edgewise.Sequence, n int64) *recited {
	a := &recited{}
	req := step(p.batches, id, n)
	req.Each = func(resp *edgewise.Response) error {
		a.responses++
		resp.Release()
		return nil
	}
	a.asked = p.request(req)
	return a
}

func (a *recited) wants(t *testing.T, responses int) {
	t.Helper()
	<-a.done
	if a.err != nil || !a.response.Empty || a.responses != responses {
		t.Errorf("%d responses, want %d, the last %+v: %v", a.responses, responses, a.response, a.err)
	}
}

// TestARequestOfASequenceMayHaveManyResponses has one slot for two sequences: the second begins when the last request of
// the first has ended, with its last response, and that follows the one before it.
func TestARequestOfASequenceMayHaveManyResponses(t *testing.T) {
	for name, m := range map[string]*edgewise.Model{
		"direct":          reciteModel(0, nil),
		"direct, batches": reciteModel(1, direct(0, 0)),
		"oldest":          reciteModel(4, oldest(1)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &reciter{}
				p := play(t, r, m, sched.Config{MaxQueue: 10})
				first, second := p.recite(starts(1), 3), p.recite(ends(1), 2)
				other := p.recite(edgewise.Sequence{ID: 2, Start: true, End: true}, 1)
				first.wants(t, 3)
				second.wants(t, 2)
				other.wants(t, 1)
				want := []string{
					"1: start 1, ready 1", "1: end", "1: start 0, ready 1", "1: end", "2: start 1, ready 1", "2: end",
				}
				if !slices.Equal(r.said, want) {
					t.Errorf("%q, want %q", r.said, want)
				}
				st := p.s.Statistics()
				if st.Success.Count != 3 || len(st.Responses) != 4 || st.Responses[0].Success.Count != 3 || st.Sequences.Live != 0 {
					t.Errorf("%+v, %+v", st, st.Sequences)
				}
				p.close()
			})
		})
	}
}

// TestSequencesOfADecoupledModelRunTogether has a slot for each of four sequences, also where other models would run them
// as rows of one batch.
func TestSequencesOfADecoupledModelRunTogether(t *testing.T) {
	for name, m := range map[string]*edgewise.Model{
		"direct": reciteModel(4, direct(0, 0)), "oldest": reciteModel(4, oldest(4)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play(t, &reciter{}, m, sched.Config{MaxQueue: 10})
				began := time.Now()
				var all []*recited
				for id := range uint64(4) {
					all = append(all, p.recite(starts(id+1), 10))
				}
				for _, a := range all {
					a.wants(t, 10)
				}
				if took := time.Since(began); took != 10*time.Second {
					t.Errorf("four sequences took %v", took)
				}
				p.close()
			})
		})
	}
}

func TestLeavingAStreamEndsItsSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, &reciter{}, reciteModel(0, nil), sched.Config{MaxQueue: 10})
		left, behind := p.recite(starts(1), 100), p.recite(goes(1), 1)
		time.Sleep(2500 * time.Millisecond)
		left.cancel()
		left.fails(t, edgewise.Canceled, "")
		behind.fails(t, edgewise.Canceled, "an earlier request of the sequence was canceled")
		if left.responses != 2 {
			t.Errorf("%d responses", left.responses)
		}
		p.recite(goes(1), 1).fails(t, edgewise.Invalid, startFlag)
		p.recite(starts(1), 1).wants(t, 1)
		p.close()
	})
}

// TestARequestForOneResponseBeginsNoSequence is refused before anything else.
func TestARequestForOneResponseBeginsNoSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t, &reciter{}, reciteModel(0, nil), sched.Config{MaxQueue: 10})
		p.ask(starts(1), 1, 0).fails(t, edgewise.Unsupported, "is decoupled")
		p.recite(goes(1), 1).fails(t, edgewise.Invalid, startFlag)
		p.close()
	})
}
