package perf

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// columns are the heads of the CSV form.
func columns() []string {
	return []string{
		"concurrency", "rate", "seconds", "requests", "failed", "throughput", "inferences",
		"mean_us", "min_us", "p50_us", "p90_us", "p99_us", "p99.9_us", "max_us", "slowest_us",
		"windows", "stable", "interrupted", "behind_s", "reconnects",
		"queue_us", "compute_input_us", "compute_infer_us", "compute_output_us", "batch",
		"generator_cpu_s", "generator_cpu_per_request_us", "generator_delay_p99_us", "failures",
	}
}

// WriteCSV writes a head and one line for each step, in the units of Step. What the server does not tell is empty.
// Errors are those of w.
func WriteCSV(w io.Writer, steps []Step) error {
	out := csv.NewWriter(w)
	if err := out.Write(columns()); err != nil {
		return err
	}
	for i := range steps {
		if err := out.Write(record(&steps[i])); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func record(s *Step) []string {
	l, g := s.Latency, s.Generator
	fields := []string{
		strconv.Itoa(s.Concurrency), number(s.Rate), number(s.Seconds), fmt.Sprint(s.Requests), fmt.Sprint(s.Failed),
		number(s.Throughput), number(s.Inferences),
		number(l.Mean), number(l.Min), number(l.P50), number(l.P90), number(l.P99), number(l.P999), number(l.Max), number(s.Slowest),
		strconv.Itoa(s.Windows), strconv.FormatBool(s.Stable), strconv.FormatBool(s.Interrupted), number(s.Behind), fmt.Sprint(s.Reconnects),
	}
	if v := s.Server; v != nil {
		fields = append(fields, number(v.Queue), number(v.ComputeInput), number(v.ComputeInfer), number(v.ComputeOutput), number(v.Batch))
	} else {
		fields = append(fields, "", "", "", "", "")
	}
	return append(fields, number(g.CPUSeconds), number(g.CPUPerRequest), number(g.DelayP99), failuresText(s.Failures))
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// failuresText lists failures in one field.
func failuresText(failures []Failure) string {
	var parts []string
	for _, f := range failures {
		parts = append(parts, fmt.Sprintf("%d x %s", f.Count, f))
	}
	return strings.Join(parts, "; ")
}

// String returns the status, if there was an answer, and the text.
func (f Failure) String() string {
	if f.Status == 0 {
		return f.Text
	}
	return strings.TrimSpace(strconv.Itoa(f.Status) + " " + f.Text)
}
