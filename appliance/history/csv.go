package history

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// WriteCSV writes what was read as a table: a line for each step and series with requests, oldest first.
func WriteCSV(w io.Writer, h *admin.StoredHistory) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{
		"time", "model", "version", "caller", "measured_seconds", "requests_per_second", "errors_per_second",
		"refused_per_second", "p50_us", "p95_us", "p99_us", "queue_us",
	})
	for i, seconds := range h.Measured {
		at := h.From.Add(time.Duration(i*h.StepSeconds) * time.Second).Format(time.RFC3339)
		for _, s := range h.Series {
			if s.Requests[i] == nil || *s.Requests[i] == 0 {
				continue
			}
			line := []string{at, s.Model, "", s.Caller, strconv.FormatInt(seconds, 10)}
			if s.Version > 0 {
				line[2] = strconv.FormatInt(s.Version, 10)
			}
			for _, values := range [][]*float64{s.Requests, s.Errors, s.Refused, s.P50, s.P95, s.P99, s.Queue} {
				text := ""
				if values[i] != nil {
					text = strconv.FormatFloat(*values[i], 'f', -1, 64)
				}
				line = append(line, text)
			}
			_ = out.Write(line)
		}
	}
	out.Flush()
	return out.Error()
}
