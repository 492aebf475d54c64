// Package waits measures what the requests of a queue wait for, beside runs of their own model.
package waits

import (
	"cmp"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
)

// Hurdle is what keeps the requests of a queue waiting beside runs of their own model. Where there are several at a time,
// the first one of this list counts.
type Hurdle uint8

// The hurdles.
const (
	None    Hurdle = iota
	Cores          // an instance loop has a batch, and others hold the cores
	Limiter        // or the resources of the rate limiter
	Loading        // the model's process starts
	batch          // the batcher waits for more requests
	hurdles
)

// causes are the names of hurdles in edgewise.Wait.
var causes = [hurdles]string{"", "cores", "limiter", "loading", "batch"}

// MaxHolders bounds the versions that are named as holders of cores in the waits of one busy time of a queue.
const MaxHolders = 6

// Queue measures how long the requests of a queue wait for what. It adds up while requests are queued: what a request
// waited for is what was added while it was there. Where nothing is in the way it costs one comparison. The mutex of its
// queue guards it.
type Queue struct {
	Account *cores.Account // of the version; nil: it needs no cores
	stopped [hurdles]int   // instance loops that each hurdle stops; of batch 1 while the batcher waits
	active  int            // their sum
	since   time.Time      // up to when waited is complete, while active
	waited  waited
	used    bool // waited is not zero, or may be soon

	Begun, Done uint64 // requests that were handed to instance loops, and those of them that have their answers
}

// waited is how long each hurdle kept requests waiting, and who held the cores.
type waited struct {
	times   [hurdles]time.Duration
	holders [MaxHolders]holder
	others  time.Duration // for which further versions held the cores
}

// holder is a version that held cores.
type holder struct {
	model    edgewise.ModelID
	took     time.Duration // its share of the time in which a batch waited for cores
	requests int
	counted  uint64 // the number of the last of its runs that was counted while it was in progress
	latest   uint64 // what counted becomes
}

// Reset forgets what was measured: no request is queued.
func (w *Queue) Reset() {
	if w.used && w.active == 0 {
		w.waited, w.used = waited{}, false
	}
}

// Enter notes that a hurdle stops an instance loop.
func (w *Queue) Enter(h Hurdle) {
	now := time.Now()
	w.measure(now, true)
	if h == Cores && w.stopped[h] == 0 {
		w.Account.Watch()
	}
	w.stopped[h]++
	w.active++
	w.since, w.used = now, true
}

// Leave notes that a hurdle does not stop an instance loop any more.
func (w *Queue) Leave(h Hurdle) {
	w.measure(time.Now(), true)
	w.stopped[h]--
	w.active--
	if h == Cores && w.stopped[h] == 0 {
		w.Account.Unwatch()
	}
}

// measure adds the time up to now to what was waited for. Runs of others that are in progress are counted when all is
// set, so that a request that comes now finds them counted later.
func (w *Queue) measure(now time.Time, all bool) {
	if w.active == 0 {
		return
	}
	took := now.Sub(w.since)
	h := Cores
	for w.stopped[h] == 0 {
		h++
	}
	w.waited.times[h] += took
	if h == Cores {
		w.divide(took, now, all)
	}
	w.since = now
}

// divide divides a time in which a batch waited for cores between the versions that held them.
func (w *Queue) divide(took time.Duration, now time.Time, all bool) {
	rest := took
	w.Account.Held(w.since, now, func(h *cores.Holding) {
		share := min(h.Took, rest)
		if rest -= share; rest < roundings {
			share, rest = share+rest, 0
		}
		w.waited.add(h, share, all)
	})
	w.waited.others += rest
	for i := range w.waited.holders {
		h := &w.waited.holders[i]
		h.counted = h.latest
	}
}

// roundings is what the shares of a time, which are rounded to a nanosecond, may lack together.
const roundings = time.Microsecond

// add adds what a run held. A run that was counted while it was in progress is not counted again when it has ended.
func (w *waited) add(held *cores.Holding, share time.Duration, all bool) {
	for i := range w.holders {
		h := &w.holders[i]
		if h.model != held.Model && h.model.Name != "" {
			continue
		}
		h.model = held.Model
		h.took += share
		if held.Number > h.counted && (all || !held.Running) {
			h.requests += held.Requests
			if held.Running {
				h.latest = max(h.latest, held.Number)
			}
		}
		return
	}
	w.others += share
}

// Batch notes whether the batcher waits.
func (w *Queue) Batch(wait bool) {
	switch {
	case wait && w.stopped[batch] == 0:
		w.Enter(batch)
	case !wait && w.stopped[batch] > 0:
		w.Leave(batch)
	}
}

// Stay is what a request remembers of the time when it had to wait, and then what it waited for.
type Stay struct {
	noted    bool // false: an instance was idle when it came
	prepared time.Duration
	done     uint64  // of waits
	before   *waited // kept with the job; not read unless hurdles is set
	hurdles  bool

	ahead int
	parts []edgewise.Wait
}

// Note notes that a request has to wait, which arrived at a time.
func (w *Queue) Note(at *Stay, arrived time.Time) {
	at.noted, at.prepared, at.done, at.hurdles = true, time.Since(arrived), w.Done, w.used
	if !w.used {
		return
	}
	w.measure(arrived.Add(at.prepared), false)
	if at.before == nil {
		at.before = new(waited)
	}
	*at.before = w.waited
}

// Explain notes what a request has waited for, which begins to run. Where that was nothing but requests of its own model, it
// allocates nothing.
func (w *Queue) Explain(at *Stay) {
	if !at.noted {
		return
	}
	if at.ahead = int(w.Begun - at.done); !w.used {
		return
	}
	if w.active > 0 {
		w.measure(time.Now(), true)
	}
	var none waited
	before := &none
	if at.hurdles {
		before = at.before
	}
	at.parts = w.waited.since(before)
}

// Load adds a time for which the request waited for the model's process. The time comes after Explain.
func (at *Stay) Load(took time.Duration) {
	at.parts = append(at.parts, edgewise.Wait{Cause: causes[Loading], Took: took})
}

// Tell puts into t that the request has waited for a time, and for what.
func (at *Stay) Tell(t *edgewise.Timing, waited time.Duration) {
	t.Queue, t.Prepared, t.Ahead, t.Waits = waited, at.prepared, at.ahead, at.parts
	if at.noted {
		return
	}
	t.Prepared = waited
	for _, part := range at.parts {
		t.Prepared -= part.Took
	}
}

// Again is the Stay of the next request in the same memory.
func (at *Stay) Again() Stay { return Stay{before: at.before} }

// since lists what was waited for after before, the versions that held the cores longest first; nil: nothing.
func (w *waited) since(before *waited) (list []edgewise.Wait) {
	add := func(part edgewise.Wait) {
		if part.Took > 0 {
			list = append(list, part)
		}
	}
	for i := range w.holders {
		h, b := &w.holders[i], &before.holders[i]
		requests := max(h.requests-b.requests, 1)
		add(edgewise.Wait{Cause: causes[Cores], Model: h.model, Requests: requests, Took: h.took - b.took})
	}
	slices.SortStableFunc(list, func(a, b edgewise.Wait) int { return cmp.Compare(b.Took, a.Took) })
	add(edgewise.Wait{Cause: causes[Cores], Took: w.others - before.others})
	for h := Limiter; h < hurdles; h++ {
		add(edgewise.Wait{Cause: causes[h], Took: w.times[h] - before.times[h]})
	}
	return list
}
