package sched

import (
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// board plays a program of moves on a table and knows what has to hold after each.
type board struct {
	t       *testing.T
	table   *sequenceTable
	seats   *seats
	forgot  map[*sequence]int
	turns   []*turn           // that have neither run nor failed
	numbers map[*turn]int     // the order in which they came
	last    map[*sequence]int // the highest number that had its turn
}

func newBoard(t *testing.T) *board {
	b := &board{t: t, forgot: map[*sequence]int{}, numbers: map[*turn]int{}, last: map[*sequence]int{}}
	b.table = &sequenceTable{idleLimit: time.Hour, maxQueue: 12, live: map[sequenceKey]*sequence{}, forget: func(s *sequence) { b.forgot[s]++ }}
	b.seats = &seats{table: b.table, each: 2}
	b.table.slots = b.seats
	b.seats.resize(1)
	return b
}

// move plays one move: what, with whom, and how.
func (b *board) move(what, whom, how byte) {
	switch what % 8 {
	case 0, 1, 2:
		c := &turn{start: how&1 != 0, end: how&2 != 0, arrived: time.Now(), granted: make(chan struct{}, 1), call: &sequenceCall{request: &edgewise.Request{}}}
		if how&4 != 0 {
			c.call.request.Timeout = time.Minute
		}
		if b.table.enter(sequenceKey{id: uint64(whom%5) + 1}, c) == nil {
			b.numbers[c] = len(b.numbers) + 1
			b.turns = append(b.turns, c)
		}
	case 3, 4:
		if c := b.pick(whom); c != nil && c.of.running == c {
			b.table.finish(c, how&1 != 0)
			b.remove(c)
		}
	case 5:
		if c := b.pick(whom); c != nil && c.of.running != c && b.table.withdraw(c) {
			b.remove(c)
		}
	case 6:
		if c := b.pick(whom); c != nil && how&1 != 0 {
			b.table.overdue(c, time.Now().Add(2*time.Minute))
			return
		}
		b.table.mu.Lock()
		b.table.expire(time.Now().Add(2 * time.Hour))
		b.table.mu.Unlock()
	case 7:
		b.table.mu.Lock()
		b.seats.resize(int(how % 3))
		b.table.seat()
		b.table.mu.Unlock()
	}
}

func (b *board) pick(n byte) *turn {
	if len(b.turns) == 0 {
		return nil
	}
	return b.turns[int(n)%len(b.turns)]
}

func (b *board) remove(c *turn) {
	for i := range b.turns {
		if b.turns[i] == c {
			b.turns = append(b.turns[:i], b.turns[i+1:]...)
			return
		}
	}
}

// collect takes the tokens that were handed out: each is a turn that runs, in order, or one that failed.
func (b *board) collect() {
	for _, c := range append([]*turn(nil), b.turns...) {
		select {
		case <-c.granted:
		default:
			continue
		}
		if c.err != nil {
			b.remove(c)
			continue
		}
		if c.of.running != c || b.numbers[c] <= b.last[c.of] {
			b.t.Fatalf("request %d has its turn after %d", b.numbers[c], b.last[c.of])
		}
		b.last[c.of] = b.numbers[c]
	}
}

// check holds what is true of every table between two moves.
func (b *board) check() {
	t := b.table
	found, waiting, seated := map[*sequence]bool{}, 0, 0
	for _, c := range b.turns {
		found[c.of] = true
	}
	for _, s := range t.live {
		found[s] = true
	}
	for s := range found {
		waiting += len(s.queue)
		switch {
		case b.forgot[s] > 0:
			b.t.Fatal("a sequence that was dropped is still there")
		case s.seated && s.running == nil && (len(s.queue) > 0 || s.link.in != &t.idle):
			b.t.Fatal("a sequence with a slot neither runs nor is idle")
		case s.seated && s.running != nil && s.link.in != nil:
			b.t.Fatal("a sequence that runs is in a list")
		case !s.seated && (s.link.in != &t.backlog || len(s.queue) == 0):
			b.t.Fatal("a sequence without a slot is not in the backlog")
		}
		if s.seated {
			seated++
		}
	}
	switch {
	case waiting != t.waiting || waiting > t.maxQueue:
		b.t.Fatalf("%d requests wait, the table says %d", waiting, t.waiting)
	case seated != b.seats.used || seated+t.backlog.size != t.held:
		b.t.Fatalf("%d sequences have slots, the table says %d; %d are in the backlog, of %d", seated, b.seats.used, t.backlog.size, t.held)
	case t.backlog.size > 0 && b.seats.used < b.seats.limit:
		b.t.Fatal("a slot is free and a sequence waits")
	}
	for s, n := range b.forgot {
		if n != 1 || s.state.bytes != 0 {
			b.t.Fatal("a sequence was dropped more than once")
		}
	}
}

// FuzzSequenceTable plays any program on the table. At its end nothing is left of any sequence.
func FuzzSequenceTable(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 0, 0, 0, 0, 2, 3, 0, 0, 3, 0, 0, 3, 0, 0})                            // three requests of one sequence
	f.Add([]byte{0, 0, 1, 0, 1, 1, 0, 2, 5, 0, 3, 1, 6, 2, 1, 3, 0, 1, 5, 0, 0})                   // a backlog, one overdue, one broken
	f.Add([]byte{0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 2, 5, 1, 0, 7, 0, 0, 3, 0, 0, 6, 0, 0, 7, 0, 2}) // a restart, canceled before it; other slots
	f.Fuzz(func(t *testing.T, program []byte) {
		b := newBoard(t)
		for ; len(program) >= 3; program = program[3:] {
			b.move(program[0], program[1], program[2])
			b.collect()
			b.check()
		}
		b.table.mu.Lock()
		b.seats.resize(3)
		b.table.seat()
		b.table.mu.Unlock()
		b.table.close()
		for b.collect(); len(b.turns) > 0; b.collect() {
			before := len(b.turns)
			for _, c := range append([]*turn(nil), b.turns...) {
				if c.of.running == c {
					b.table.finish(c, false)
					b.remove(c)
				}
			}
			if len(b.turns) == before {
				t.Fatalf("%d requests wait for ever", before)
			}
		}
		if t := b.table; t.held+t.waiting+b.seats.used+t.backlog.size+t.idle.size+len(t.live) != 0 {
			b.t.Fatalf("left over: %d sequences, %d requests, %d slots", t.held, t.waiting, b.seats.used)
		}
	})
}

// FuzzRagged puts requests of any shapes together and takes the outputs apart again: each gets what it sent. Outputs of any
// other size are refused.
func FuzzRagged(f *testing.F) {
	f.Add([]byte{1, 2, 3, 2, 1, 4, 1, 0, 5}, []byte("abc"), false)
	f.Add([]byte{3, 1, 1}, []byte{1, 0, 0, 0, 'x', 9, 0, 0, 0}, true)
	f.Fuzz(func(t *testing.T, sizes, hostile []byte, text bool) {
		r := &ragged{flat: map[string]bool{"x": true}, scatter: map[string]string{"y": "x"}, made: []edgewise.BatchInput{
			{Kind: batchSumsZero, TargetName: []string{"ends"}, DataType: edgewise.Int32, SourceInput: []string{"x"}},
			{Kind: batchShapes, TargetName: []string{"shapes"}, DataType: edgewise.FP32, SourceInput: []string{"x"}},
		}}
		kind := edgewise.Uint8
		if text {
			kind = edgewise.Bytes
		}
		var jobs []*job
		for ; len(sizes) >= 3 && len(jobs) < 16; sizes = sizes[3:] {
			shape := edgewise.Shape{int64(sizes[0]%4) + 1, int64(sizes[1] % 5), int64(sizes[2] % 5)}
			n, _ := shape.Elements()
			var data []byte
			for i := range n {
				if element := byte(len(jobs)) + byte(i); text {
					data = edgewise.AppendElement(data, string(make([]byte, element%3))+string(rune(element)))
				} else {
					data = append(data, element)
				}
			}
			jobs = append(jobs, &job{batch: int(shape[0]), ragged: r, inputs: []edgewise.Tensor{{Name: "x", Type: kind, Shape: shape, Data: data}}})
		}
		if len(jobs) == 0 {
			return
		}
		g := gatherer{}
		gathered, err := g.gather(jobs, elements(jobs))
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.inputs(gathered, jobs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if err := all[i].Check(); err != nil {
				t.Fatal(err)
			}
		}
		whole := edgewise.Tensor{Name: "y", Type: kind, Shape: all[0].Shape, Data: all[0].Data}
		if err := r.distribute([]edgewise.Tensor{whole}, jobs, elements(jobs)); err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if out := j.outputs[0]; !out.Shape.Equal(j.inputs[0].Shape) || string(out.Data) != string(j.inputs[0].Data) {
				t.Fatalf("sent %v, got %v", j.inputs[0], out)
			}
		}
		whole.Data = hostile
		if r.distribute([]edgewise.Tensor{whole}, jobs, elements(jobs)) == nil {
			for _, j := range jobs {
				if err := j.outputs[0].Check(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
