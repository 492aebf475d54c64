package manager

import (
	"cmp"
	"math"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// Demand is how often a version was asked of late. The zero value was not.
type Demand struct {
	asked float64 // runs, of which older ones count less: see Age
	runs  int64   // that asked counts
}

// Begin says how many runs there were before the first request: trials at a load.
func (d *Demand) Begin(r edgewise.Resident) { _, d.runs, _ = r.Used() }

// Use is how a version that may give its memory up is used now: that of the machine, or of a GPU.
type Use struct {
	demand *Demand
	name   string
	bytes  int64
	last   time.Time
	runs   int64
	busy   bool
}

// UseOf asks a version, which takes so many bytes. Names decide where nothing else does.
func UseOf(r edgewise.Resident, d *Demand, name string, bytes int64) Use {
	u := Use{demand: d, name: name, bytes: bytes}
	u.last, u.runs, u.busy = r.Used()
	return u
}

// halfLife is after how many runs of all models together an earlier one counts for half.
const halfLife = 500

// Age counts the runs of all versions that share a memory since the last time, and makes earlier ones count less.
func Age(list []Use) {
	var all int64
	for _, u := range list {
		all += u.runs - u.demand.runs
	}
	keep := math.Exp2(-float64(all) / halfLife)
	for _, u := range list {
		u.demand.asked = u.demand.asked*keep + float64(u.runs-u.demand.runs)
		u.demand.runs = u.runs
	}
}

// Before tells whether u rests before v, negative when it does: those in use last, of the others the one whose bytes are
// asked for least, of those that are never asked for the one that waits longest. Where models of several sizes share the
// memory, that keeps more requests from waiting than the order of their last requests does.
func (u Use) Before(v Use) int {
	if u.busy != v.busy {
		return map[bool]int{true: 1, false: -1}[u.busy]
	}
	return cmp.Or(
		cmp.Compare(u.demand.asked/float64(u.bytes), v.demand.asked/float64(v.bytes)), u.last.Compare(v.last),
		cmp.Compare(u.name, v.name),
	)
}
