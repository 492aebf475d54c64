package perf

import (
	"fmt"
	"io"
	"time"
)

// WriteHead writes the head of the table whose lines WriteLine writes, as the steps are measured. It is 80 columns
// wide.
func WriteHead(w io.Writer) {
	fmt.Fprintf(w, "%-10s %9s %8s %8s %8s %8s %8s %7s\n", "LOAD", "REQ/S", "P50", "P90", "P99", "P99.9", "MAX", "FAILED")
}

// WriteLine writes one step of the table, and below it what keeps its figures from being trusted.
func WriteLine(w io.Writer, s Step) {
	l := s.Latency
	fmt.Fprintf(w, "%-10s %9.1f %8s %8s %8s %8s %8s %7d\n", s.Load(), s.Throughput,
		Short(l.P50), Short(l.P90), Short(l.P99), Short(l.P999), Short(l.Max), s.Failed)
	for _, n := range notes(&s) {
		fmt.Fprintf(w, "  ! %s\n", n)
	}
}

// Bounds of what is noted below a step.
const (
	behindWorthNoting = 0.1  // seconds
	coresWorthNoting  = 0.5  // that the generator takes
	lateWorthNoting   = 1000 // microseconds from the scheduled arrival to the sending
	shareWorthNoting  = 0.25 // of the latency that this lateness is
	shownFailures     = 5    // different ones
	slowerWorthNoting = 1.5  // times the longest latency of the reported windows
	shareOfRateNeeded = 0.98 // of an open loop's arrivals
)

// notes returns what a reader has to know before believing a step.
func notes(s *Step) (list []string) {
	switch {
	case s.Interrupted:
		list = append(list, fmt.Sprintf("interrupted: %.3gs measured", s.Seconds))
	case !s.Stable:
		list = append(list, fmt.Sprintf("not stable: the last %d of %d windows do not agree", min(reported, s.Windows), s.Windows))
	}
	if s.Slowest > slowerWorthNoting*s.Latency.Max {
		list = append(list, fmt.Sprintf("slowest request of all %d windows: %s", s.Windows, Short(s.Slowest)))
	}
	if s.Behind > behindWorthNoting {
		list = append(list, fmt.Sprintf("%.3gs behind the schedule at the end: this rate is too high", s.Behind))
	}
	if done := float64(s.Requests+s.Failed) / max(s.Seconds, 1e-9); s.Rate > 0 && s.Behind > behindWorthNoting &&
		done < s.Rate*shareOfRateNeeded {
		list = append(list, fmt.Sprintf("%.1f of %g requests a second were answered", done, s.Rate))
	}
	if d := s.Generator.DelayP99; d > lateWorthNoting && d > s.Latency.P99*shareWorthNoting {
		list = append(list, fmt.Sprintf("requests left up to %s late (p99): too few connections, or too little processor time here", Short(d)))
	}
	if cores := s.Generator.CPUSeconds / max(s.Seconds, 1e-9); cores > coresWorthNoting {
		list = append(list, fmt.Sprintf("the generator took %.2f cores, which the server may have lacked", cores))
	}
	for i, f := range s.Failures {
		if i == shownFailures {
			list = append(list, fmt.Sprintf("and %d more kinds of errors", len(s.Failures)-i))
			break
		}
		list = append(list, fmt.Sprintf("%d x %s", f.Count, f))
	}
	return list
}

// WriteServer writes the table of where the time goes: the server's own split, what is left (the network, HTTP, and in
// an open loop the wait for a connection) and what the generator took.
func WriteServer(w io.Writer, steps []Step) {
	fmt.Fprintf(w, "%-10s %8s %8s %8s %8s %8s %6s %10s\n", "MEAN", "QUEUE", "INPUT", "INFER", "OUTPUT", "OUTSIDE", "BATCH", "GENERATOR")
	for i := range steps {
		s := &steps[i]
		generator := Short(s.Generator.CPUPerRequest)
		v := s.Server
		if v == nil {
			fmt.Fprintf(w, "%-10s %8s %8s %8s %8s %8s %6s %10s\n", s.Load(), "-", "-", "-", "-", "-", "-", generator)
			continue
		}
		outside := max(0, s.Latency.Mean-v.Queue-v.ComputeInput-v.ComputeInfer-v.ComputeOutput)
		fmt.Fprintf(w, "%-10s %8s %8s %8s %8s %8s %6.2f %10s\n", s.Load(),
			Short(v.Queue), Short(v.ComputeInput), Short(v.ComputeInfer), Short(v.ComputeOutput), Short(outside), v.Batch, generator)
	}
}

// Short writes microseconds with three digits and a unit, in at most seven columns.
func Short(us float64) string {
	d := time.Duration(us * 1e3)
	switch {
	case d < time.Millisecond:
		return digits(us) + "us"
	case d < time.Second:
		return digits(us/1e3) + "ms"
	}
	return digits(us/1e6) + "s"
}

func digits(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
