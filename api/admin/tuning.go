package admin

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// TuneObjective is what a model is tuned for. The zero value is the default: the lowest latency that loses no more than 5 %
// of the throughput.
type TuneObjective struct {
	P99         float64      `json:"p99_ms,omitempty"`       // the most that 99 % of the requests may take; 0: no bound
	Throughput  float64      `json:"throughput,omitempty"`   // requests per second that it has to carry; 0: no floor
	MemoryBytes int64        `json:"memory_bytes,omitempty"` // that its process may take; 0: no bound
	Power       bool         `json:"power,omitempty"`        // the lowest energy per request; it is the weight power alone
	Weights     *TuneWeights `json:"weights,omitempty"`      // what counts among those that keep the bounds
}

// TuneWeights say how much each quality counts. They are taken as parts of their sum.
type TuneWeights struct {
	Latency    float64 `json:"latency,omitempty"`
	Throughput float64 `json:"throughput,omitempty"`
	Memory     float64 `json:"memory,omitempty"`
	Power      float64 `json:"power,omitempty"` // energy per request
}

// String is the objective in words.
func (o TuneObjective) String() string {
	var parts []string
	if o.P99 > 0 {
		parts = append(parts, fmt.Sprintf("p99 below %g ms", o.P99))
	}
	if o.Throughput > 0 {
		parts = append(parts, fmt.Sprintf("at least %g requests per second", o.Throughput))
	}
	if o.MemoryBytes > 0 {
		parts = append(parts, fmt.Sprintf("at most %d MiB", o.MemoryBytes>>20))
	}
	if o.Power {
		parts = append(parts, "the lowest energy per request")
	}
	if w := o.Weights; w != nil {
		parts = append(parts, fmt.Sprintf("weights latency %g, throughput %g, memory %g, power %g", w.Latency, w.Throughput, w.Memory,
			w.Power))
	}
	if len(parts) == 0 {
		return "the lowest latency that loses no more than 5 % throughput"
	}
	return strings.Join(parts, ", ")
}

// TuneRequest asks for a tuning of a model's live version.
type TuneRequest struct {
	Objective *TuneObjective `json:"objective,omitempty"` // nil: the model's own, or the default
	Seconds   int            `json:"seconds,omitempty"`   // of measurement at the most; 0: five minutes
	StoreOnly bool           `json:"store_only,omitempty"`
}

// The states of a tuning.
const (
	TuneQueued    = "queued"    // one model is tuned at a time
	TuneWaiting   = "waiting"   // clients need the machine
	TuneMeasuring = "measuring" // candidates are measured
	TuneDone      = "done"
	TuneFailed    = "failed"
	TuneStopped   = "stopped"
)

// Tuning is the present or the latest tuning of a model since the box was started.
type Tuning struct {
	Model     string        `json:"model"`
	Version   int64         `json:"version"` // that is tuned
	Objective TuneObjective `json:"objective"`
	State     string        `json:"state"`
	Phase     string        `json:"phase,omitempty"` // what is being tried
	Measured  int           `json:"measured"`        // rungs so far
	Started   time.Time     `json:"started"`
	Seconds   float64       `json:"elapsed_seconds"`
	Limit     int           `json:"limit_seconds"`
	Actor     string        `json:"actor"`
	Error     string        `json:"error,omitempty"`
	Report    *TuneReport   `json:"report,omitempty"` // when it is done
}

// Active tells whether it has not ended.
func (t *Tuning) Active() bool {
	return t.State == TuneQueued || t.State == TuneWaiting || t.State == TuneMeasuring
}

// Tunings are those of a model: the present or the latest one, and what earlier ones have found.
type Tunings struct {
	Latest  *Tuning       `json:"latest,omitempty"` // since the box was started
	Reports []TuneSummary `json:"reports"`          // of each version that has one, ascending
}

// TuneSummary is the head of a report.
type TuneSummary struct {
	Version  int64     `json:"version"` // that was made, or base where nothing better was found
	Base     int64     `json:"base"`
	Gain     float64   `json:"gain"`
	Measured time.Time `json:"measured"`
	Stale    bool      `json:"stale"` // it does not hold on this machine
}

// Where the requests come from that a model is measured with.
const (
	FromGoldens   = "goldens"
	FromRecorded  = "recorded"
	FromSignature = "generated"
	FromWarmup    = "warmup" // model_warmup of the version's configuration
)

// TuneReport is what a tuning has found.
type TuneReport struct {
	Base       int64           `json:"base"`    // the version that was tuned
	Version    int64           `json:"version"` // that was made of it; 0: none, since its configuration is the best
	Live       bool            `json:"live"`    // it went live at once
	Objective  TuneObjective   `json:"objective"`
	Gain       float64         `json:"gain"`               // how many times as good as the base it is
	GainLow    float64         `json:"gain_low,omitempty"` // where it is with 95 % confidence; absent: not known
	GainHigh   float64         `json:"gain_high,omitempty"`
	Reason     string          `json:"reason,omitempty"` // why there is no new version, or it is not live
	Rate       float64         `json:"rate"`             // requests per second at which latencies were compared
	Inputs     string          `json:"inputs"`           // FromGoldens and the others
	Hardware   []string        `json:"hardware"`         // that it holds for
	Stale      string          `json:"stale,omitempty"`  // why it does not hold any more
	Measured   time.Time       `json:"measured"`
	Seconds    float64         `json:"took_seconds"`
	Paused     float64         `json:"paused_seconds"` // for clients
	Searched   []TuneAxis      `json:"searched"`
	Cut        string          `json:"cut,omitempty"`     // the axis at which the time was over
	Candidates []TuneCandidate `json:"candidates"`        // the best first; not all where they are many
	Parts      []TunePart      `json:"parts,omitempty"`   // of an ensemble: the versions that were made of its models
	Omitted    int             `json:"omitted,omitempty"` // candidates that are not listed
}

// TunePart is a version that was made of a model for an ensemble alone: no label points to it.
type TunePart struct {
	Model    string   `json:"model"`
	Base     int64    `json:"base"` // the version that it was made of
	Version  int64    `json:"version"`
	Settings []string `json:"settings"` // what differs from the base
}

// TuneAxis is one thing that was searched. The first value is that of the base.
type TuneAxis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// What became of a candidate of a tuning, beside CandidateChosen, CandidateWrong and CandidateFailed.
const (
	CandidateCurrent = "current" // the configuration of the base
	CandidateWorse   = "worse"   // by the objective
	CandidateMisses  = "misses"  // a bound of the objective
)

// TuneCandidate is one configuration that was tried.
type TuneCandidate struct {
	Settings   []string     `json:"settings"` // what differs from the base
	State      string       `json:"state"`    // chosen, current, worse, misses, wrong or failed
	Reason     string       `json:"reason,omitempty"`
	Gain       float64      `json:"gain,omitempty"`     // how many times as good as the base it is
	GainLow    float64      `json:"gain_low,omitempty"` // where it is with 95 % confidence; absent: not known
	GainHigh   float64      `json:"gain_high,omitempty"`
	Throughput TuneEstimate `json:"throughput"`
	Points     []TunePoint  `json:"points"` // by rate
	Memory     int64        `json:"memory_bytes,omitempty"`
	Pareto     bool         `json:"pareto"` // no other candidate has both a higher throughput and a lower latency
}

// Name is what the candidate changes, in words.
func (c *TuneCandidate) Name() string {
	if len(c.Settings) == 0 {
		return "current configuration"
	}
	return strings.Join(c.Settings, ", ")
}

// TuneEstimate is a measured value and where it is with 95 % confidence.
type TuneEstimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// TunePoint is what was measured of a candidate at one rate of requests.
type TunePoint struct {
	Rate     float64      `json:"rate"`
	P50      TuneEstimate `json:"p50_ms"`
	P99      TuneEstimate `json:"p99_ms"`
	Requests int          `json:"requests"`
	Energy   float64      `json:"joules_per_request,omitempty"` // of the whole machine, where the objective asks for it
}

// At returns the point closest to a rate; nil where nothing was measured.
func (c *TuneCandidate) At(rate float64) (closest *TunePoint) {
	for i := range c.Points {
		p := &c.Points[i]
		if closest == nil || max(p.Rate/rate, rate/p.Rate) < max(closest.Rate/rate, rate/closest.Rate) {
			closest = p
		}
	}
	return closest
}

// Describe writes the report as a table.
func (r *TuneReport) Describe(w io.Writer) {
	fmt.Fprintf(w, "version %d, for %v\n\n", r.Base, r.Objective)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "CONFIGURATION\tSTATE\tGAIN\tTHROUGHPUT\tP50 AT %.3g/s\tP99\tMEMORY\n", r.Rate)
	for _, c := range r.Candidates {
		p50, p99, gain := "-", "-", "-"
		if p := c.At(r.Rate); p != nil {
			p50, p99 = p.P50.milliseconds(), p.P99.milliseconds()
		}
		if c.Gain > 0 {
			gain = times(c.Gain, c.GainLow, c.GainHigh)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%.4g/s\t%s\t%s\t%d MiB\n", c.Name(), c.State, gain, c.Throughput.Value, p50, p99, c.Memory>>20)
	}
	_ = table.Flush()
	if r.Omitted > 0 {
		fmt.Fprintf(w, "and %d more\n", r.Omitted)
	}
	for _, c := range r.Candidates {
		if c.Reason != "" {
			fmt.Fprintf(w, "\n%s: %s\n", c.Name(), c.Reason)
		}
	}
	inputs := strings.TrimSuffix(r.Inputs, "s") // "golden", "recorded", "generated" or "warmup"
	fmt.Fprintf(w, "\nmeasured %s with %s inputs in %.0f s", r.Measured.Local().Format("2006-01-02 15:04:05"), inputs,
		r.Seconds)
	if r.Paused >= 1 {
		fmt.Fprintf(w, ", after %.0f s in which clients needed the machine", r.Paused)
	}
	fmt.Fprintf(w, "\non %s\n", strings.Join(r.Hardware, ", "))
	if r.Cut != "" {
		fmt.Fprintf(w, "the time was over before %q was searched\n", r.Cut)
	}
	if r.Stale != "" {
		fmt.Fprintf(w, "it does not hold any more: %s\n", r.Stale)
	}
	for _, p := range r.Parts {
		fmt.Fprintf(w, "version %d of %s, which this ensemble alone runs: %s\n", p.Version, p.Model, strings.Join(p.Settings, ", "))
	}
	fmt.Fprintln(w, r.Conclusion())
}

func (e TuneEstimate) milliseconds() string {
	if e.Value >= 1e5 {
		return "never"
	}
	return fmt.Sprintf("%.3g ms (%.3g to %.3g)", e.Value, e.Low, e.High)
}

// times writes a gain and where it is.
func times(gain, low, high float64) string {
	if high <= low {
		return fmt.Sprintf("%.2f", gain)
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", gain, low, high)
}

// Conclusion is what was found, in one sentence.
func (r *TuneReport) Conclusion() string {
	better := fmt.Sprintf("%s times as good as version %d", times(r.Gain, r.GainLow, r.GainHigh), r.Base)
	switch {
	case r.Version == 0:
		return "nothing is changed: " + r.Reason
	case r.Live && r.Reason != "":
		return fmt.Sprintf("version %d is live: %s; %s", r.Version, better, r.Reason)
	case r.Live:
		return fmt.Sprintf("version %d is live: %s", r.Version, better)
	case r.Reason != "":
		return fmt.Sprintf("version %d is stored and not live: %s", r.Version, r.Reason)
	}
	return fmt.Sprintf("version %d is stored: %s", r.Version, better)
}
