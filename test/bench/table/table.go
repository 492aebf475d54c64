// Package table has the tables of docs/benchmarks: figures with their goals, absolute figures behind them, and pictures.
package table

import (
	"fmt"
	"strings"
)

// Result is what a scenario measured.
type Result struct {
	Figures  []Figure  `json:"figures"`
	Grids    []Grid    `json:"grids,omitempty"`
	Pictures []Picture `json:"pictures,omitempty"`
}

// Picture is a drawing, in a file of its own in a folder beside the table.
type Picture struct {
	Title string `json:"title"`
	File  string `json:"file"`
	SVG   []byte `json:"-"`
}

// Figure is one line of a table.
type Figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Goal   string  `json:"goal"` // empty: there is none
	Met    bool    `json:"met"`
	Detail string  `json:"detail"` // absolute figures behind the ratio
}

// Grid is a table of absolute figures behind the ratios.
type Grid struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Markdown writes the figures of all results in one table, and then their grids and pictures.
func Markdown(all ...Result) string {
	var figures, grids strings.Builder
	for _, r := range all {
		for _, f := range r.Figures {
			figures.WriteString(f.row())
		}
		for _, g := range r.Grids {
			grids.WriteString(g.markdown())
		}
		for _, p := range r.Pictures {
			fmt.Fprintf(&grids, "\n![%s](%s)\n", p.Title, p.File)
		}
	}
	if figures.Len() == 0 {
		return grids.String()
	}
	return "| figure | measured | goal | met | behind it |\n|---|---|---|---|---|\n" + figures.String() + grids.String()
}

func (f *Figure) row() string {
	met := "yes"
	switch {
	case f.Goal == "":
		met = ""
	case !f.Met:
		met = "**no**"
	}
	return fmt.Sprintf("| %s | %.3g %s | %s | %s | %s |\n", f.Name, f.Value, f.Unit, f.Goal, met, f.Detail)
}

func (g *Grid) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n| %s |\n|%s\n", g.Title, strings.Join(g.Columns, " | "), strings.Repeat("---|", len(g.Columns)))
	for _, row := range g.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}
