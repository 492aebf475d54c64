package crowd

import (
	"cmp"
	"fmt"

	"github.com/edgewise-ai/edgewise"
)

// Report is what was measured.
type Report struct {
	Title   string
	Figures []Figure
	Rows    [][]string // under Columns
}

// Figure is one line of a table.
type Figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Goal   string  `json:"goal"` // empty: there is none
	Met    bool    `json:"met"`
	Detail string  `json:"detail"`
}

// othersMost bounds the requests to a box whose models clients load and unload, or that has no room for all of them.
const othersMost = 2000

// Shared measures a box whose models give their memory to others.
func Shared(skew float64) func(*Crowd) (Report, error) {
	return func(c *Crowd) (Report, error) {
		c.Workload = NewWorkload(skew, c.plan.Requests, c.plan.Scale)
		if err := c.Fill(); err != nil {
			return Report{}, err
		}
		before, err := c.foresight()
		if err != nil {
			return Report{}, err
		}
		all := c.AskAll(c.Ask)
		kills, err := c.Group.Kills()
		s, title, first := Summarize(all), c.title(skew, len(all)), ""
		best, atOnce := before.Foreseen(all)
		if s.First != nil {
			first = fmt.Sprintf("the first one: %.200v", s.First)
		}
		return Report{Title: title, Rows: [][]string{s.Row("models give their memory to others")}, Figures: []Figure{
			{title + ": ended by the kernel for lack of memory", float64(kills), "", "<= 0", kills == 0, "since the first model was stored"},
			{title + ": failed requests", float64(s.Failed), "", "<= 0", s.Failed == 0, first},
			{
				title + ": found their model loaded / the same if all later requests were known", s.Found / best, "x", ">= 0.9",
				s.Found/best >= 0.9, fmt.Sprintf("%.1f %% against %.1f %%; %.1f %% where loads take no time; %d waited for a load, "+
					"and %d in a queue behind them", 100*s.Found, 100*best, 100*atOnce, s.Waited, s.Woke.N-s.Waited),
			},
			{
				title + ": p99 of those while another model was loaded", 1e3 * s.Beside.P99, "ms", "", true,
				fmt.Sprintf("of %d, and %.1f ms of %d while none was", s.Beside.N, 1e3*s.Alone.P99, s.Alone.N),
			},
		}}, err
	}
}

// title says what was asked.
func (c *Crowd) title(skew float64, requests int) string {
	title := fmt.Sprintf("Zipf %g, %d requests", skew, requests)
	if c.plan.Scale > 1 {
		title += fmt.Sprintf(", sizes and memory divided by %d", c.plan.Scale)
	}
	return title
}

// Demanded measures a box whose clients load and unload the models themselves.
func Demanded(c *Crowd) (Report, error) {
	c.Workload = NewWorkload(1, min(c.plan.Requests, othersMost), c.plan.Scale)
	if err := c.Fill(); err != nil {
		return Report{}, err
	}
	d, err := NewOnDemand(c)
	if err != nil {
		return Report{}, err
	}
	all := c.AskAll(d.Ask)
	kills, err := c.Group.Kills()
	s, title, first := Summarize(all), c.title(1, len(all))+", load on demand", "none failed"
	best, atOnce := Foresight{memory: c.room, taken: c.taken}.Foreseen(all)
	if s.First != nil {
		first = fmt.Sprintf("the first failure: %.150v", s.First)
	}
	return Report{Title: title, Rows: [][]string{s.Row("clients load and unload, the one asked for longest ago first")}, Figures: []Figure{{
		title + ": found their model loaded / the same if all later requests were known", s.Found / best, "x", "", true,
		fmt.Sprintf("%.1f %% against %.1f %%; %.1f %% where loads take no time; %d failed, %d ended by the kernel; %s",
			100*s.Found, 100*best, 100*atOnce, s.Failed, kills, first),
	}}}, err
}

// AllLoaded says what becomes of a server that has all models and knows no bound.
func AllLoaded(c *Crowd) (Report, error) {
	c.Workload = NewWorkload(1, 1, c.plan.Scale)
	stored, said := 0, error(nil)
	for i := 0; i < Models && said == nil; i++ {
		if said = c.store(i, ""); said == nil {
			stored++
		}
	}
	kills, err := c.Group.Kills()
	return Report{Figures: []Figure{{
		fmt.Sprintf("all loaded, in the server's process, without a bound: loaded of %d", Models), float64(stored), "", "", true,
		fmt.Sprintf("%d processes ended by the kernel; then: %.150v", kills, said),
	}}}, err
}

// pinnedConfig is the configuration of a model that stays loaded.
const pinnedConfig = `parameters { key: "residency" value { string_value: "always" } }`

// Pinned measures a box of which all models stay loaded: those that find no room are refused, and requests to them fail.
func Pinned(c *Crowd) (Report, error) {
	c.Workload = NewWorkload(1, min(c.plan.Requests, othersMost), c.plan.Scale)
	loaded, said := 0, error(nil)
	for i := range c.sizes {
		switch err := c.store(i, pinnedConfig); {
		case err == nil:
			loaded++
		case edgewise.KindOf(err) == edgewise.Exhausted:
			said = cmp.Or(said, err)
		default:
			return Report{}, err
		}
	}
	all := c.AskAll(c.Ask)
	kills, err := c.Group.Kills()
	s, title := Summarize(all), c.title(1, len(all))+", as many loaded as fit"
	return Report{Title: title, Rows: [][]string{s.Row("the first models stay loaded")}, Figures: []Figure{{
		fmt.Sprintf("%s: loaded of %d", title, Models), float64(loaded), "", "", true,
		fmt.Sprintf("%d requests failed, %d processes ended by the kernel; refused: %.150v", s.Failed, kills, said),
	}}}, err
}
