package main

import (
	"fmt"
	"strings"
)

// result is what a scenario measured.
type result struct {
	Figures []figure `json:"figures"`
	Grids   []grid   `json:"grids,omitempty"`
}

// figure is one line of a table.
type figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Goal   string  `json:"goal"` // empty: there is none
	Met    bool    `json:"met"`
	Detail string  `json:"detail"` // absolute figures behind the ratio
}

// grid is a table of absolute figures behind the ratios.
type grid struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// atLeast makes a figure that has to reach a goal.
func atLeast(name string, value, goal float64, unit, detail string) figure {
	return figure{name, value, unit, fmt.Sprintf(">= %g", goal), value >= goal, detail}
}

// atMost makes a figure that has to stay below a goal.
func atMost(name string, value, goal float64, unit, detail string) figure {
	return figure{name, value, unit, fmt.Sprintf("<= %g", goal), value <= goal, detail}
}

// known makes a figure without a goal.
func known(name string, value float64, unit, detail string) figure {
	return figure{name, value, unit, "", true, detail}
}

// markdown writes the figures of all results in one table, and then their grids.
func markdown(all ...result) string {
	var figures, grids strings.Builder
	for _, r := range all {
		for _, f := range r.Figures {
			figures.WriteString(f.row())
		}
		for _, g := range r.Grids {
			grids.WriteString(g.markdown())
		}
	}
	if figures.Len() == 0 {
		return grids.String()
	}
	return "| figure | measured | goal | met | behind it |\n|---|---|---|---|---|\n" + figures.String() + grids.String()
}

func (f *figure) row() string {
	met := "yes"
	switch {
	case f.Goal == "":
		met = ""
	case !f.Met:
		met = "**no**"
	}
	return fmt.Sprintf("| %s | %.3g %s | %s | %s | %s |\n", f.Name, f.Value, f.Unit, f.Goal, met, f.Detail)
}

func (g *grid) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n| %s |\n|%s\n", g.Title, strings.Join(g.Columns, " | "), strings.Repeat("---|", len(g.Columns)))
	for _, row := range g.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

// latencies adds a table of sides, their rates and their latencies in ms or us.
func (r *result) latencies(title, unit string, sides []side, all []series) {
	second := map[string]float64{"ms": 1e3, "us": 1e6}[unit]
	g := grid{Title: title, Columns: []string{"side", "requests/s", "p50 " + unit, "p99 " + unit}}
	for i, s := range sides {
		g.Rows = append(g.Rows, []string{
			s.name, fmt.Sprintf("%.0f", all[i].rate()), fmt.Sprintf("%.3g", second*all[i].p50()),
			fmt.Sprintf("%.3g", second*all[i].p99()),
		})
	}
	r.Grids = append(r.Grids, g)
}

func count(clients int) string {
	if clients == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", clients)
}
