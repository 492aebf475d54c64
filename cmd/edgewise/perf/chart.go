package perf

import (
	"fmt"
	"io"
	"strings"
)

const chartBar = 54 // columns of the longest bar; the whole chart fits 80

// WriteChart draws the throughput and the latency of every step as bars: '#' up to the median, '=' up to p90 and '-'
// up to p99.
func WriteChart(w io.Writer, steps []Step) {
	var throughput, latency float64
	for i := range steps {
		throughput = max(throughput, steps[i].Throughput)
		latency = max(latency, steps[i].Latency.P99)
	}
	fmt.Fprintln(w, "requests/s")
	for i := range steps {
		s := &steps[i]
		fmt.Fprintf(w, "%-10s %-*s %.1f\n", s.Load(), chartBar, strings.Repeat("#", columnsOf(s.Throughput, throughput)), s.Throughput)
	}
	fmt.Fprintln(w, "latency: # to p50, = to p90, - to p99")
	for i := range steps {
		s := &steps[i]
		fmt.Fprintf(w, "%-10s %-*s %s\n", s.Load(), chartBar, latencyBar(s.Latency, latency), Short(s.Latency.P99))
	}
}

func latencyBar(l Latency, longest float64) string {
	bar := strings.Repeat("#", columnsOf(l.P50, longest))
	bar += strings.Repeat("=", max(0, columnsOf(l.P90, longest)-len(bar)))
	return bar + strings.Repeat("-", max(0, columnsOf(l.P99, longest)-len(bar)))
}

// columnsOf returns the length of a bar. What is there at all has at least one column.
func columnsOf(v, longest float64) int {
	if v <= 0 || longest <= 0 {
		return 0
	}
	return min(max(1, int(v/longest*chartBar+0.5)), chartBar)
}
