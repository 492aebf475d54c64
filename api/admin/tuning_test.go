package admin

import (
	"strings"
	"testing"
	"time"
)

func TestAReportSaysWhereItsGainIs(t *testing.T) {
	for _, c := range []struct {
		report TuneReport
		want   string
	}{
		{TuneReport{Reason: "it is the best"}, "nothing is changed: it is the best"},
		{
			TuneReport{Version: 2, Base: 1, Gain: 1.2, GainLow: 1.05, GainHigh: 1.371, Live: true},
			"version 2 is live: 1.20 (1.05 to 1.37) times as good as version 1",
		},
		{
			TuneReport{Version: 2, Base: 1, Gain: 1.2, GainLow: 1.05, GainHigh: 1.371, Live: true, Reason: "by stages"},
			"version 2 is live: 1.20 (1.05 to 1.37) times as good as version 1; by stages",
		},
		{
			TuneReport{Version: 3, Base: 1, Gain: 2.08},
			"version 3 is stored: 2.08 times as good as version 1",
		},
		{TuneReport{Version: 3, Base: 1, Reason: "its goldens fail"}, "version 3 is stored and not live: its goldens fail"},
	} {
		if got := c.report.Conclusion(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestAReportIsATable(t *testing.T) {
	at := func(p50 float64) []TunePoint {
		return []TunePoint{{Rate: 50, P50: TuneEstimate{p50, p50 / 2, 2 * p50}, P99: TuneEstimate{1e6, 1e6, 1e6}}}
	}
	r := TuneReport{
		Base: 1, Version: 2, Gain: 1.2, GainLow: 1.05, GainHigh: 1.37, Rate: 50, Inputs: FromGoldens, Seconds: 60, Hardware: []string{"2 cores"},
		Measured: time.Date(2026, 11, 29, 18, 0, 0, 0, time.Local), Cut: "cores", Stale: "it was another machine", Omitted: 1,
		Candidates: []TuneCandidate{
			{
				Settings: []string{"no batches"}, State: "chosen", Gain: 1.2, GainLow: 1.05, GainHigh: 1.37,
				Throughput: TuneEstimate{120, 1, 2}, Points: at(4),
			},
			{State: CandidateCurrent, Gain: 1, GainLow: 1, GainHigh: 1, Memory: 3 << 20},
			{Settings: []string{"2 instances"}, State: CandidateMisses, Reason: "it carries too little"},
		},
	}
	var text strings.Builder
	r.Describe(&text)
	want := `version 1, for the lowest latency that loses no more than 5 % throughput

CONFIGURATION           STATE     GAIN                  THROUGHPUT   P50 AT 50/s        P99     MEMORY
no batches              chosen    1.20 (1.05 to 1.37)   120/s        4 ms (2 to 8)      never   0 MiB
current configuration   current   1.00                  0/s          -                  -       3 MiB
2 instances             misses    -                     0/s          -                  -       0 MiB
and 1 more

2 instances: it carries too little

measured 2026-11-29 18:00:00 with golden inputs in 60 s
on 2 cores
the time was over before "cores" was searched
it does not hold any more: it was another machine
version 2 is stored: 1.20 (1.05 to 1.37) times as good as version 1
`
	if got := text.String(); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
