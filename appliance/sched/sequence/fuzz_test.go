package sequence

import (
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// board plays a program of moves on a table and knows what has to hold after each.
type board struct {
	t        *testing.T
	table    *table
	slots    *oldestSlots
	forgot   map[*sequence]int
	requests []*request        // that have neither run nor failed
	numbers  map[*request]int  // the order in which they came
	last     map[*sequence]int // the highest number that had its turn
}

func newBoard(t *testing.T) *board {
	b := &board{t: t, forgot: map[*sequence]int{}, numbers: map[*request]int{}, last: map[*sequence]int{}}
	b.table = &table{
		idleLimit: time.Hour, maxQueue: 12, live: map[correlationID]*sequence{},
		forget: func(s *sequence) { b.forgot[s]++ },
	}
	b.slots = &oldestSlots{table: b.table, each: 2}
	b.table.slots = b.slots
	b.slots.resize(1)
	return b
}

// move plays one move: what, with whom, and how.
func (b *board) move(what, whom, how byte) {
	switch what % 8 {
	case 0, 1, 2:
		c := &request{
			start: how&1 != 0, end: how&2 != 0, arrived: time.Now(), granted: make(chan struct{}, 1),
			call: &call{request: &edgewise.Request{}},
		}
		if how&4 != 0 {
			c.call.request.Timeout = time.Minute
		}
		if b.table.enter(correlationID{id: uint64(whom%5) + 1}, c) == nil {
			b.numbers[c] = len(b.numbers) + 1
			b.requests = append(b.requests, c)
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
		b.slots.resize(int(how % 3))
		b.table.assign()
		b.table.mu.Unlock()
	}
}

func (b *board) pick(n byte) *request {
	if len(b.requests) == 0 {
		return nil
	}
	return b.requests[int(n)%len(b.requests)]
}

func (b *board) remove(c *request) {
	for i := range b.requests {
		if b.requests[i] == c {
			b.requests = append(b.requests[:i], b.requests[i+1:]...)
			return
		}
	}
}

// collect takes the tokens that were handed out: each is a turn that runs, in order, or one that failed.
func (b *board) collect() {
	for _, c := range append([]*request(nil), b.requests...) {
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
	found, waiting, hasSlot := map[*sequence]bool{}, 0, 0
	for _, c := range b.requests {
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
		case s.hasSlot && s.running == nil && (len(s.queue) > 0 || s.in != &t.idle):
			b.t.Fatal("a sequence with a slot neither runs nor is idle")
		case s.hasSlot && s.running != nil && s.in != nil:
			b.t.Fatal("a sequence that runs is in a list")
		case !s.hasSlot && (s.in != &t.backlog || len(s.queue) == 0):
			b.t.Fatal("a sequence without a slot is not in the backlog")
		}
		if s.hasSlot {
			hasSlot++
		}
	}
	switch {
	case waiting != t.waiting || waiting > t.maxQueue:
		b.t.Fatalf("%d requests wait, the table says %d", waiting, t.waiting)
	case hasSlot != b.taken() || hasSlot+t.backlog.Len() != t.held:
		b.t.Fatalf(
			"%d sequences have slots, the table says %d; %d are in the backlog, of %d", hasSlot, b.taken(),
			t.backlog.Len(), t.held,
		)
	case t.backlog.Len() > 0 && b.taken() < b.slots.instances*b.slots.each:
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
	f.Add([]byte{0, 0, 1, 0, 0, 0, 0, 0, 2, 3, 0, 0, 3, 0, 0, 3, 0, 0})          // three requests of one sequence
	f.Add([]byte{0, 0, 1, 0, 1, 1, 0, 2, 5, 0, 3, 1, 6, 2, 1, 3, 0, 1, 5, 0, 0}) // a backlog, one overdue, one broken
	// a restart, canceled before it; other slots
	f.Add([]byte{0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 2, 5, 1, 0, 7, 0, 0, 3, 0, 0, 6, 0, 0, 7, 0, 2})
	f.Fuzz(func(t *testing.T, program []byte) {
		b := newBoard(t)
		for ; len(program) >= 3; program = program[3:] {
			b.move(program[0], program[1], program[2])
			b.collect()
			b.check()
		}
		b.table.mu.Lock()
		b.slots.resize(3)
		b.table.assign()
		b.table.mu.Unlock()
		b.table.close()
		for b.collect(); len(b.requests) > 0; b.collect() {
			before := len(b.requests)
			for _, c := range append([]*request(nil), b.requests...) {
				if c.of.running == c {
					b.table.finish(c, false)
					b.remove(c)
				}
			}
			if len(b.requests) == before {
				t.Fatalf("%d requests wait for ever", before)
			}
		}
		if t := b.table; t.held+t.waiting+b.taken()+t.backlog.Len()+t.idle.Len()+len(t.live) != 0 {
			b.t.Fatalf("left over: %d sequences, %d requests, %d slots", t.held, t.waiting, b.taken())
		}
	})
}

// taken is how many slots are taken. No instance has given more than it has.
func (b *board) taken() (sum int) {
	for _, used := range b.slots.used {
		if used > b.slots.each {
			b.t.Fatalf("an instance has %d sequences, and %d slots", used, b.slots.each)
		}
		sum += used
	}
	return sum
}
