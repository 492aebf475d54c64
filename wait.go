package edgewise

import (
	"fmt"
	"time"
)

// Wait is a part of the time that a request waited before it ran, and what it waited for.
type Wait struct {
	// Cause is one of these:
	//	preparation  the request was read, checked and handed to an instance
	//	sequence     earlier requests of its sequence, or a slot for that
	//	loading      its model had given its memory to others and came back
	//	limiter      the rate limiter's resources
	//	cores        runs held the cores: those of Model, which is empty for further models together
	//	batch        the batcher waited for more requests
	//	queue        requests of its own model ran before it
	Cause    string
	Model    ModelID
	Requests int // of cores and queue: those that ran meanwhile
	Took     time.Duration
}

// String says what was waited for in a few words.
func (w Wait) String() string {
	took := w.Took.Round(max(w.Took/1000, 1))
	switch {
	case w.Cause == "cores" && w.Model.Name != "":
		return fmt.Sprintf("%v: %s of %v held cores", took, w.requests(), w.Model)
	case w.Cause == "cores":
		return fmt.Sprintf("%v: requests of further models held cores", took)
	case w.Cause == "queue":
		return fmt.Sprintf("%v: %s of the model ran before it", took, w.requests())
	}
	return fmt.Sprintf("%v: %s", took, w.Cause)
}

func (w Wait) requests() string {
	if w.Requests == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", w.Requests)
}

// Explain divides Queue by what the request waited for. The parts add up to it.
func (t *Timing) Explain() []Wait {
	list := make([]Wait, 0, len(t.Waits)+3)
	rest := t.Queue - t.Prepared - t.Sequence
	for _, w := range t.Waits {
		rest -= w.Took
	}
	prepared := t.Prepared
	if t.Ahead == 0 { // no other request of the model ran: what is left is the way to the instance
		prepared, rest = prepared+rest, 0
	}
	for _, w := range []Wait{{Cause: "preparation", Took: prepared}, {Cause: "sequence", Took: t.Sequence}} {
		if w.Took > 0 {
			list = append(list, w)
		}
	}
	list = append(list, t.Waits...)
	if rest > 0 {
		list = append(list, Wait{Cause: "queue", Requests: t.Ahead, Took: rest})
	}
	return list
}
