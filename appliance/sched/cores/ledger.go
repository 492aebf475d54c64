package cores

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// maxRuns bounds the ended runs that the ledger keeps: the latest ones.
const maxRuns = 256

// ledger is who holds cores, and, while somebody wants to know, who did. The budget's mutex guards it.
type ledger struct {
	holders  []*Lease // that hold cores now, in no order
	number   uint64   // of the run that began last
	watchers int      // while there are none, runs that end are not kept
	runs     []run    // that have ended; overwritten when there are maxRuns
	next     int

	found   []Holding // by Held, whose memory is used again
	changes []change
}

// run is the time for which a lease held cores for one run.
type run struct {
	of       *Account
	requests int
	number   uint64
	from, to time.Time
}

// begin notes that a lease holds cores.
func (g *ledger) begin(l *Lease) {
	g.number++
	l.number, l.place = g.number, len(g.holders)
	g.holders = append(g.holders, l)
}

// end notes that a lease holds none any more.
func (g *ledger) end(l *Lease) {
	last := len(g.holders) - 1
	g.holders[l.place] = g.holders[last]
	g.holders[l.place].place = l.place
	g.holders[last] = nil
	g.holders = g.holders[:last]
}

// note notes that the run of a lease has ended, which goes on to hold the cores or not.
func (g *ledger) note(l *Lease, now time.Time) {
	if g.watchers > 0 {
		ended := run{l.account, int(l.requests.Load()), l.number, l.since, now}
		if len(g.runs) < maxRuns {
			g.runs = append(g.runs, ended)
		} else {
			g.runs[g.next] = ended
			g.next = (g.next + 1) % maxRuns
		}
		l.requests.Store(0) // until the next run begins
	}
	g.number++
	l.number = g.number
}

// Watch makes the budget keep who holds the cores, until Unwatch is called as often.
func (a *Account) Watch() {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.watchers++
}

// Unwatch ends a Watch. What was kept is forgotten with the last one.
func (a *Account) Unwatch() {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	g := &b.ledger
	if g.watchers--; g.watchers == 0 {
		clear(g.runs)
		g.runs, g.next = g.runs[:0], 0
	}
}

// Holding is what a run did with cores in a time that somebody asks for.
type Holding struct {
	Model    edgewise.ModelID
	Requests int           // of the run; 0: a trial run
	Number   uint64        // of the run; later runs have larger ones
	Took     time.Duration // its share of the time: at each moment its cores among those that were held
	Running  bool          // the run is in progress

	cores    int
	from, to time.Duration // in the time
}

// change is a moment at which cores were taken or given back.
type change struct {
	at    time.Duration
	cores int
	share float64 // of one core, from the beginning of the time: nanoseconds
}

// Held calls each for every run that held cores in the time from from to to, while that was watched: the latest maxRuns
// ended ones, and those in progress. Together they took no more than the time. each does not use the budget.
func (a *Account) Held(from, to time.Time, each func(*Holding)) {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	g := &b.ledger
	g.found = g.found[:0]
	for _, l := range g.holders {
		g.find(&run{l.account, int(l.requests.Load()), l.number, l.since, to}, from, to, true)
	}
	for back := range g.runs {
		r := &g.runs[(g.next+len(g.runs)-1-back)%len(g.runs)]
		if !r.to.After(from) {
			break
		}
		g.find(r, from, to, false)
	}
	g.share()
	for i := range g.found {
		each(&g.found[i])
	}
}

// find adds what a run held in a time, if it held anything.
func (g *ledger) find(r *run, from, to time.Time, running bool) {
	begin, end := max(r.from.Sub(from), 0), min(r.to.Sub(from), to.Sub(from))
	if begin < end {
		g.found = append(g.found, Holding{
			Model: r.of.model, Requests: r.requests, Number: r.number, Running: running, cores: r.of.width, from: begin, to: end,
		})
	}
}

// share divides the time between the runs that were found.
func (g *ledger) share() {
	g.changes = g.changes[:0]
	for i := range g.found {
		h := &g.found[i]
		g.changes = append(g.changes, change{at: h.from, cores: h.cores}, change{at: h.to, cores: -h.cores})
	}
	slices.SortFunc(g.changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	held, share := 0, 0.0
	for i := range g.changes {
		c := &g.changes[i]
		if held > 0 {
			share += float64(c.at-g.changes[i-1].at) / float64(held)
		}
		c.share = share
		held += c.cores
	}
	for i := range g.found {
		h := &g.found[i]
		h.Took = time.Duration(math.Round(float64(h.cores) * (g.until(h.to) - g.until(h.from))))
	}
}

// until returns the share of one core until a change.
func (g *ledger) until(at time.Duration) float64 {
	i, _ := slices.BinarySearchFunc(g.changes, at, func(c change, at time.Duration) int { return cmp.Compare(c.at, at) })
	return g.changes[i].share
}
