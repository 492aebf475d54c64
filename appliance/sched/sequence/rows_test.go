package sequence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched"
)

// keeper is a process that answers each request of a batch by itself: y is the sum of x since the start of its sequence,
// which it keeps. It gives a state of the box's before that, which is 31 state + x.
type keeper struct {
	hasher
	mu   sync.Mutex // guards what follows
	sums map[uint64]int64
	runs []string // "sequence" or "-" of each request of a run, and s for a start, e for an end
}

func (k *keeper) Answer(_ context.Context, calls []*edgewise.Call) error {
	time.Sleep(time.Millisecond)
	k.mu.Lock()
	defer k.mu.Unlock()
	run := ""
	for _, c := range calls {
		of := map[string]int64{}
		for _, in := range c.Request.Inputs {
			if in.Type == edgewise.Bool {
				of[in.Name] = int64(in.Data[0])
				continue
			}
			of[in.Name] = int64(binary.LittleEndian.Uint64(in.Data))
		}
		s := c.Request.Sequence
		if s.ID != uint64(of["CORRID"]) || s.Active() != (of["READY"] == 1) || s.Start != (of["START"] == 1) ||
			c.Request.Instance != 1 || s.Active() != (c.Request.ID != "") {
			run += "!"
		}
		run += " " + noted(s)
		if s.Start {
			k.sums[s.ID] = 0
		}
		if of["x"] == hashFails {
			_ = c.Answer(nil, true, errors.New("bad row"))
			continue
		}
		if s.Active() {
			k.sums[s.ID] += of["x"]
		}
		_ = c.Answer(&edgewise.Result{Outputs: []edgewise.Tensor{
			number("next", 31*of["state"]+of["x"]), number("y", k.sums[s.ID]),
		}, Free: func() {}}, true, nil)
	}
	k.runs = append(k.runs, run[1:])
	return nil
}

func noted(s edgewise.Sequence) string {
	text := "-"
	if s.Active() {
		text = fmt.Sprint(s.ID)
	}
	if s.Start {
		text += "s"
	}
	if s.End {
		text += "e"
	}
	return text
}

func number(name string, n int64) edgewise.Tensor {
	data := binary.LittleEndian.AppendUint64(nil, uint64(n))
	return edgewise.Tensor{Name: name, Type: edgewise.Int64, Shape: edgewise.Shape{1, 1}, Data: data}
}

// TestAProcessIsGivenARequestForEachRow looks at the batches of the strategy direct for an instance that answers requests:
// each has its sequence, flags, controls, id and parameters, the rows stand in the order of the slots, and rows without a
// request are there and not ready. Nothing is run twice, because the process keeps what it has run.
func TestAProcessIsGivenARequestForEachRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{sums: map[uint64]int64{}}
		p := play(t, k, hashModel(4, direct(0, 0)), sched.Config{MaxQueue: 9})
		defer p.close()
		for id := range uint64(3) {
			p.say(starts(id+1), 5, 5)
		}
		busy := p.ask(goes(2), 1, 0)
		one := step(true, goes(1), 2)
		one.Parameters = map[string]any{"a": "b"}
		first, third := p.request(one), p.ask(goes(3), 3, 0) // while it runs
		busy.says(t, 6)
		first.says(t, 7)
		third.says(t, 8)
		busy = p.ask(goes(2), 1, 0)
		bad, good := p.ask(goes(1), hashFails, 0), p.ask(ends(3), 4, 0)
		busy.says(t, 7)
		bad.fails(t, edgewise.Internal, "bad row")
		good.says(t, 12)
		p.say(ends(1), 1, 8)
		p.say(starts(7), 5, 5) // in the first row
		want := []string{"1s", "- 2s", "- - 3s", "- 2", "1 - 3", "- 2", "1 - 3e", "1e", "7s"}
		if fmt.Sprintf("%q", k.runs) != fmt.Sprintf("%q", want) {
			t.Errorf("rows %q, want %q", k.runs, want)
		}
		if st := p.s.Statistics(); st.InferenceCount != 11 || st.ExecutionCount != 9 || st.Success.Count != 10 || st.Sequences.Live != 2 {
			t.Errorf("statistics %+v %+v", st, st.Sequences)
		}
	})
}

// TestTheClientOfARowMayLeave leaves while the batch runs: the others have their answers.
func TestTheClientOfARowMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{sums: map[uint64]int64{}}
		p := play(t, k, hashModel(4, direct(0, 0)), sched.Config{MaxQueue: 9})
		defer p.close()
		busy := p.ask(starts(1), 5, 0)
		gone, stays := p.ask(starts(2), 5, 0), p.ask(starts(3), 5, 0)
		busy.says(t, 5)
		synctest.Wait() // the second batch runs
		gone.cancel()
		gone.fails(t, edgewise.Canceled, "")
		stays.says(t, 5)
		p.say(goes(3), 1, 6)
		p.ask(goes(2), 1, 0).fails(t, edgewise.Invalid, startFlag)
	})
}
