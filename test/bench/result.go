package main

import (
	"fmt"

	"github.com/edgewise-ai/edgewise/test/bench/table"
)

// What a scenario measured.
type (
	result = table.Result
	figure = table.Figure
	grid   = table.Grid
)

// atLeast makes a figure that has to reach a goal.
func atLeast(name string, value, goal float64, unit, detail string) figure {
	return figure{Name: name, Value: value, Unit: unit, Goal: fmt.Sprintf(">= %g", goal), Met: value >= goal, Detail: detail}
}

// atMost makes a figure that has to stay below a goal.
func atMost(name string, value, goal float64, unit, detail string) figure {
	return figure{Name: name, Value: value, Unit: unit, Goal: fmt.Sprintf("<= %g", goal), Met: value <= goal, Detail: detail}
}

// known makes a figure without a goal.
func known(name string, value float64, unit, detail string) figure {
	return figure{Name: name, Value: value, Unit: unit, Met: true, Detail: detail}
}

// latencies adds a table of sides, their rates and their latencies in ms or us.
func (r *run) latencies(title, unit string, sides []side, all []series) {
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
