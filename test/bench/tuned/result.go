package tuned

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise/appliance/tune/search"
	"github.com/edgewise-ai/edgewise/test/bench/table"
)

// The goals of the table.
const (
	leastOfBest = 0.9
	leastAlike  = 0.95
	mostSeconds = 300
)

// result are the lines of the table.
func (m *measuring) result() table.Result {
	title := m.subject.name + ", " + m.ask.String()
	gain := func(a, b tuning) int { return cmp.Compare(a.gain, b.gain) }
	least, low, high := worst(m.compared), slices.MinFunc(m.compared, gain), slices.MaxFunc(m.compared, gain)
	slowest := slices.MaxFunc(m.tunings, func(a, b tuning) int { return cmp.Compare(a.seconds, b.seconds) })
	alike := low.gain / high.gain
	r := table.Result{Figures: []table.Figure{
		{
			Name: title + ": the worst choice / the best of the grid", Value: least.share(), Unit: "x",
			Goal: fmt.Sprintf(">= %g", leastOfBest), Met: least.share() >= leastOfBest && tried(m.found) >= m.size,
			Detail: fmt.Sprintf("%s: %.3g times the default%s; %s: %.3g times%s%s", least.name, least.gain, but(least.missed),
				m.names[m.best], least.best, but(least.bestMissed), accuracy(least)),
		},
		{
			Name: title + ": the worst choice / the best choice", Value: alike, Unit: "x", Goal: fmt.Sprintf(">= %g", leastAlike),
			Met:    alike >= leastAlike,
			Detail: fmt.Sprintf("%d tunings, %d different choices%s", len(m.tunings), len(versionsOf(m.tunings)), accuracy(low, high)),
		},
		{
			Name: title + ": time of the longest tuning", Value: slowest.seconds, Unit: "s", Goal: fmt.Sprintf("<= %d", mostSeconds),
			Met: slowest.seconds <= mostSeconds, Detail: fmt.Sprintf("limit %.0f s", m.Limit.Seconds()),
		},
		{
			Name: title + ": the worst choice / the default", Value: low.gain, Unit: "x", Met: true,
			Detail: fmt.Sprintf("by the objective, measured by clients; %d of the %d candidates of the grid were measured, %d cannot be used",
				len(m.found.Measured), m.size, tried(m.found)-len(m.found.Measured)),
		},
	}}
	r.Grids = append(r.Grids, m.latencies(title))
	r.Pictures = append(r.Pictures, m.picture(title))
	return r
}

// but says which bound was missed, nothing where none was.
func but(missed string) string {
	if missed == "" {
		return ""
	}
	return ", but " + missed
}

// tried is how many candidates of a grid were measured or cannot be used. Where some are missing, the best one of the grid
// is not known.
func tried(f *search.Found) int {
	n := len(f.Measured)
	for c := range f.Excluded {
		if f.Measured[c] == nil {
			n++
		}
	}
	return n
}

// accuracy says how exact gains are; nothing of the default, which is compared with itself.
func accuracy(list ...tuning) string {
	noise := 0.0
	for _, t := range list {
		noise = max(noise, t.noise)
	}
	if noise == 0 {
		return ""
	}
	return fmt.Sprintf(" (standard error %.1f %%)", 100*noise)
}

// latencies are those of what was compared last.
func (m *measuring) latencies(title string) table.Grid {
	g := table.Grid{Title: title, Columns: []string{"configuration", "requests/s", "at requests/s", "p50 ms", "p99 ms", "gain"}}
	for _, l := range m.lines() {
		measured := m.last.Measured[m.candidate(l.version)]
		if measured == nil {
			continue
		}
		for _, p := range measured.Points {
			g.Rows = append(g.Rows, []string{
				l.name, short(measured.Throughput.Value), short(p.Rate), short(p.P50.Value), short(p.P99.Value),
				short(m.last.Gains[m.candidate(l.version)]),
			})
		}
	}
	return g
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// line is a version in the picture.
type line struct {
	name, class string
	version     int64
	points      []search.Point
}

// lines are those of the versions that are shown, as they were compared.
func (m *measuring) lines() (list []line) {
	for i, v := range m.shown() {
		l := line{version: v}
		switch {
		case i == 0:
			l.name, l.class = "default", "a"
		case v == m.best:
			l.name, l.class = "best of the grid: "+m.names[v], "b"
		default:
			l.name, l.class = "worst choice: "+m.names[v], "c"
		}
		if measured := m.last.Measured[m.candidate(v)]; measured != nil {
			l.points = slices.Clone(measured.Points)
			slices.SortFunc(l.points, func(x, y search.Point) int { return cmp.Compare(x.Rate, y.Rate) })
		}
		list = append(list, l)
	}
	return list
}

// dots are the candidates of the grid: throughput, and p99 latency at the rate that was compared.
func (m *measuring) dots() (list [][2]float64) {
	for _, measured := range m.found.Measured {
		var at *search.Point
		for i := range measured.Points {
			p := &measured.Points[i]
			if at == nil || max(p.Rate/m.found.Rate, m.found.Rate/p.Rate) < max(at.Rate/m.found.Rate, m.found.Rate/at.Rate) {
				at = p
			}
		}
		if at != nil {
			list = append(list, [2]float64{measured.Throughput.Value, at.P99.Value})
		}
	}
	slices.SortFunc(list, func(a, b [2]float64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return list
}

// picture draws both.
func (m *measuring) picture(title string) table.Picture {
	left := chart{across: "requests per second", up: "p99 latency, ms"}
	for _, l := range m.lines() {
		s := curve{name: l.name, class: l.class}
		for _, p := range l.points {
			if p.P99.Value < unanswered {
				s.points = append(s.points, [2]float64{p.Rate, p.P99.Value})
			}
		}
		left.curves = append(left.curves, s)
	}
	right := chart{across: "throughput, requests per second", up: fmt.Sprintf("p99 latency at %s/s, ms", short(m.found.Rate))}
	for _, d := range m.dots() {
		if d[1] < unanswered {
			right.dots = append(right.dots, d)
		}
	}
	return table.Picture{
		Title: title, File: "tuning/" + m.subject.name + "-" + m.objective + ".svg", SVG: draw(title, left, right),
	}
}

// unanswered is a latency in milliseconds that no request has.
const unanswered = 1e5
