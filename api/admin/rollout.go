package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// The states of a rollout. The first four go on by themselves, and the others are its end.
const (
	RolloutRunning   = "running"     // the candidate gets the share of a stage
	RolloutPromoting = "promoting"   // the label live is being moved to the candidate
	RolloutWatching  = "watching"    // the candidate is live, and its predecessor stays loaded
	RolloutReverting = "reverting"   // the label live is being moved back
	RolloutDone      = "done"        // the candidate is live
	RolloutBack      = "rolled_back" // the predecessor is live
	RolloutStopped   = "stopped"     // somebody ended it: what was live stays live
	RolloutReplaced  = "replaced"    // the label live was moved by others, or a version was deleted
)

// The conditions of a rollout that evidence is gathered on.
const (
	RolloutErrors       = "error_rate"
	RolloutLatency      = "latency"
	RolloutDisagreement = "disagreement"
	RolloutMetric       = "metric"
)

// What a metric makes of the elements of an output.
const (
	ReduceMean       = "mean"
	ReduceMax        = "max"
	ReduceMin        = "min"
	ReduceCountAbove = "count_above"
)

// Reductions are all of them.
func Reductions() []string { return []string{ReduceMean, ReduceMax, ReduceMin, ReduceCountAbove} }

// Which values of a metric are worse.
const (
	WorseHigher = "higher"
	WorseLower  = "lower"
)

// RolloutPlan is the body of POST /api/v1/models/{model}/rollout. Members that are missing have the presets.
type RolloutPlan struct {
	Version int64          `json:"version,omitempty"` // the candidate; 0 in RolloutSettings
	Stages  []RolloutStage `json:"stages,omitempty"`  // by percent, ascending; preset: 5, 25 and 50 %
	// Sticky is empty where each request is sent for itself, "caller", or "parameter:" with the name of a parameter.
	Sticky string `json:"sticky,omitempty"`
	// WatchSeconds is for how long the predecessor stays loaded after the promotion.
	WatchSeconds *int64 `json:"watch_seconds,omitempty"`
	// FalseAlarmPercent is the chance at most that a candidate as good as the live version is taken back.
	FalseAlarmPercent *float64 `json:"false_alarm_percent,omitempty"`
	// LatencyPercent and LatencyMicroseconds are how much longer a request to the candidate may take: the larger of both.
	LatencyPercent      *float64 `json:"latency_percent,omitempty"`
	LatencyMicroseconds *int64   `json:"latency_microseconds,omitempty"`
	// Shadow is nil where the candidate answers no requests but its own.
	Shadow *RolloutShadow `json:"shadow,omitempty"`
	// Metric is nil where what answers hold is not a condition.
	Metric *OutputMetric `json:"metric,omitempty"`
}

// RolloutSettings say how versions of a model go live that an upload brings: PUT /api/v1/models/{model}/rollout/settings.
type RolloutSettings struct {
	Plan *RolloutPlan `json:"plan,omitempty"` // nil: at once
}

// OutputMetric is a number of each answer, whose mean may be worse for the candidate than for the live version by no
// more than By.
type OutputMetric struct {
	Name   string  `json:"name,omitempty"` // for people; preset: Output
	Output string  `json:"output"`         // an output of numbers
	Reduce string  `json:"reduce"`
	Above  float64 `json:"above,omitempty"` // for count_above: elements that are larger count
	Low    float64 `json:"low"`             // numbers below it count as Low
	High   float64 `json:"high"`            // numbers above it count as High
	Worse  string  `json:"worse"`
	By     float64 `json:"by"`
}

// RolloutShadow has the candidate answer requests as well that the live version has answered, while cores are idle. The
// answers are compared by the rules of the model's goldens.
type RolloutShadow struct {
	Percent float64 `json:"percent"` // of the requests to the live version
	// DisagreementPercent is how many answers may differ.
	DisagreementPercent *float64 `json:"disagreement_percent,omitempty"`
}

// RolloutStage is one stage of a plan. It is passed once the candidate has answered Requests, or once it has lasted for
// Seconds and the candidate has answered 30.
type RolloutStage struct {
	Percent  float64 `json:"percent"` // of the requests that go to the candidate; 0: those of the shadow count
	Seconds  int64   `json:"seconds"`
	Requests int64   `json:"requests"`
}

// Rollout is the present or the latest rollout of a model: GET /api/v1/models/{model}/rollout.
type Rollout struct {
	Model     string      `json:"model"`
	From      int64       `json:"from"` // the predecessor
	Plan      RolloutPlan `json:"plan"`
	State     string      `json:"state"`
	Stage     int         `json:"stage"`   // in Plan.Stages
	Percent   float64     `json:"percent"` // of the requests that go to the candidate now
	Elapsed   float64     `json:"elapsed"` // seconds of the stage, or of the watch, while the box ran
	Actor     string      `json:"actor"`   // who began it
	Started   time.Time   `json:"started"`
	Ended     time.Time   `json:"ended,omitzero"`
	Reason    string      `json:"reason,omitempty"` // of its end, or of the last attempt that failed
	Live      RolloutArm  `json:"live"`             // what was counted of the predecessor in all stages
	Candidate RolloutArm  `json:"candidate"`        // and of the candidate, also in the watch
	// Shadow is what was compared; nil: the plan has no shadow.
	Shadow *RolloutComparison `json:"shadow,omitempty"`
	// Metric is what was measured of it in the stages; nil: the plan has none.
	Metric *RolloutMetered `json:"metric,omitempty"`
	// Evidence against the candidate; the rollout goes back when a value reaches its bound.
	Evidence []RolloutEvidence `json:"evidence"`
	Events   []RolloutEvent    `json:"events"` // oldest first, at most 64
}

// RolloutArm is what was counted of one of the two versions: of requests that name no version, since the rollout began.
type RolloutArm struct {
	Requests uint64   `json:"requests"`
	Errors   uint64   `json:"errors"` // of these, that were not answered, for whatever reason
	P50      *float64 `json:"p50_us,omitempty"`
	P99      *float64 `json:"p99_us,omitempty"`
}

// RolloutEvidence is how strongly what was measured speaks against the candidate: how many times a bet on its being
// worse has multiplied its stake.
type RolloutEvidence struct {
	Condition string  `json:"condition"`
	Value     float64 `json:"value"`
	Bound     float64 `json:"bound"`
}

// RolloutMetered is what was measured of a metric: of answers to clients' requests that were drawn for one of the
// versions, and of both answers to the requests of the shadow.
type RolloutMetered struct {
	Live            RolloutMean `json:"live"`
	Candidate       RolloutMean `json:"candidate"`
	ShadowLive      RolloutMean `json:"shadow_live"`
	ShadowCandidate RolloutMean `json:"shadow_candidate"`
}

// RolloutMean is the mean of a metric in a number of answers, 0 in none.
type RolloutMean struct {
	Answers uint64  `json:"answers"`
	Mean    float64 `json:"mean"`
}

// RolloutComparison is how the answers of a candidate differ from those of the live version.
type RolloutComparison struct {
	Compared  uint64              `json:"compared"`
	Disagreed uint64              `json:"disagreed"` // of these
	Dropped   uint64              `json:"dropped"`   // requests that were not compared, because nothing was idle
	Worst     []RolloutDifference `json:"worst"`     // the largest part that differs first, at most 4
}

// RolloutDifference is an answer of the candidate that differs from that of the live version.
type RolloutDifference struct {
	Time    time.Time          `json:"time"`              // when the request had arrived
	Request string             `json:"request,omitempty"` // the id that the client gave it
	Part    float64            `json:"part"`              // of the output that differs most
	Error   string             `json:"error,omitempty"`   // of the candidate, instead of an answer
	Outputs []OutputComparison `json:"outputs,omitempty"` // those that differ
	// Live and Candidate are both answers as the inference protocol has them, without those of more than 8 KiB.
	Live      json.RawMessage `json:"live,omitempty"`
	Candidate json.RawMessage `json:"candidate,omitempty"`
}

// RolloutEvent is a change of a rollout.
type RolloutEvent struct {
	Time  time.Time `json:"time"`
	State string    `json:"state"`
	Stage int       `json:"stage"`
	Text  string    `json:"text"`
}

// Active tells whether a rollout goes on.
func (r *Rollout) Active() bool {
	switch r.State {
	case RolloutRunning, RolloutPromoting, RolloutWatching, RolloutReverting:
		return true
	}
	return false
}

// ParseRolloutStage reads PERCENT:TIME:REQUESTS, such as 5:10m:500.
func ParseRolloutStage(text string) (s RolloutStage, err error) {
	wrong := fmt.Errorf("stage %.40q: want PERCENT:TIME:REQUESTS, such as 5:10m:500", text)
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return s, wrong
	}
	if s.Percent, err = strconv.ParseFloat(strings.TrimSuffix(parts[0], "%"), 64); err != nil {
		return s, wrong
	}
	lasts, err := time.ParseDuration(parts[1])
	if err != nil {
		return s, wrong
	}
	s.Seconds = int64(lasts / time.Second)
	if s.Requests, err = strconv.ParseInt(parts[2], 10, 64); err != nil {
		return s, wrong
	}
	return s, nil
}

// String says where a rollout is.
func (r *Rollout) String() string {
	text := fmt.Sprintf("model %q: from version %d to version %d: %s, stage %d of %d, %g %% of the requests", r.Model, r.From,
		r.Plan.Version, r.State, r.Stage+1, len(r.Plan.Stages), r.Percent)
	if r.Reason != "" {
		text += "\n  " + r.Reason
	}
	return text
}

// Describe writes where a rollout is, with its evidence, for people.
func (r *Rollout) Describe(w io.Writer) {
	fmt.Fprintln(w, r)
	table := tabwriter.NewWriter(w, 2, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\nVERSION\tREQUESTS\tERRORS\tP50\tP99")
	for i, arm := range []RolloutArm{r.Live, r.Candidate} {
		fmt.Fprintf(table, "%d\t%d\t%d\t%s\t%s\n", []int64{r.From, r.Plan.Version}[i], arm.Requests, arm.Errors,
			milliseconds(arm.P50), milliseconds(arm.P99))
	}
	fmt.Fprintln(table, "\nEVIDENCE\tVALUE\tTAKEN BACK AT")
	for _, e := range r.Evidence {
		fmt.Fprintf(table, "%s\t%.3g\t%.0f\n", e.Condition, e.Value, e.Bound)
	}
	_ = table.Flush()
	if c := r.Shadow; c != nil {
		fmt.Fprintf(w, "\nshadow: %d answers compared, %d differ, %d requests dropped\n", c.Compared, c.Disagreed, c.Dropped)
	}
	if m := r.Metric; m != nil && r.Plan.Metric != nil {
		describeMetric(w, r.Plan.Metric.Name, "clients", m.Live, m.Candidate)
		describeMetric(w, r.Plan.Metric.Name, "the shadow", m.ShadowLive, m.ShadowCandidate)
	}
	fmt.Fprintln(w)
	for _, e := range r.Events {
		fmt.Fprintf(w, "%s  %s\n", e.Time.Local().Format("2006-01-02 15:04:05"), e.Text)
	}
}

// describeMetric writes the means of both versions, nothing where there are none.
func describeMetric(w io.Writer, name, whose string, live, candidate RolloutMean) {
	if live.Answers+candidate.Answers > 0 {
		fmt.Fprintf(w, "\n%s in answers to %s: %.4g of the live version (%d), %.4g of the candidate (%d)\n", name, whose,
			live.Mean, live.Answers, candidate.Mean, candidate.Answers)
	}
}

// milliseconds writes microseconds as milliseconds, "-" where there are none.
func milliseconds(us *float64) string {
	if us == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", *us/1000)
}
