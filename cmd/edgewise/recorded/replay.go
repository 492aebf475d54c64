package recorded

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/compare"
	"github.com/edgewise-ai/edgewise/appliance/example"
)

// keptDifferences bounds the answers that differ and are described.
const keptDifferences = 20

// Options say how recorded requests are sent again.
type Options struct {
	Target      edgewise.ModelID
	Speed       float64 // 1: as they were recorded; 0: as fast as the box answers
	Concurrency int
	Rules       []admin.CompareRule
	Exact       bool // every output must have equal bits, whatever the rules
}

// Report is what came of it.
type Report struct {
	Model     string       `json:"model"`
	Version   int64        `json:"version"` // 0: the one that the policy picks
	Requests  int          `json:"requests"`
	Agreed    int          `json:"agreed"`
	Different int          `json:"different"` // answers that differ from the recorded ones
	Failed    int          `json:"failed"`    // requests that have an answer in the recording and had none now
	Masked    int          `json:"masked"`    // requests with masked inputs: they cannot be sent, and are no part of Requests
	Recorded  Latencies    `json:"recorded"`
	Replayed  Latencies    `json:"replayed"`
	Worst     []Difference `json:"differences"` // the first ones, at most 20
}

// Latencies are milliseconds.
type Latencies struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Difference is a request whose answer was another one.
type Difference struct {
	Request int                      `json:"request"` // its place in the archive, from 1
	Arrived time.Time                `json:"arrived"` // when it was recorded
	Error   string                   `json:"error,omitempty"`
	Outputs []admin.OutputComparison `json:"outputs,omitempty"`
}

// replay gathers what comes of the requests.
type replay struct {
	Options
	box edgewise.Inferer

	mu             sync.Mutex // guards the fields below
	report         *Report
	recorded, took []time.Duration
}

// Replay sends the requests of an archive whose inputs are not masked. Those of sequences are sent one after the other,
// when all before them are answered. Errors: why the archive cannot be read; NotFound for one without such requests;
// Canceled.
func Replay(ctx context.Context, box edgewise.Inferer, archive io.Reader, o Options) (*Report, error) {
	r := &replay{Options: o, box: box, report: &Report{
		Model: o.Target.Name, Version: o.Target.Version, Worst: []Difference{},
	}}
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, o.Concurrency)
	began, first, number := time.Now(), time.Time{}, 0
	for e, err := range In(archive) {
		if err != nil {
			return nil, err
		}
		if number++; number == 1 {
			first = e.Arrived
		}
		if len(e.MaskedInputs) > 0 {
			r.report.Masked++
			continue
		}
		if err := o.pace(ctx, began, e.Arrived.Sub(first)); err != nil {
			return nil, err
		}
		if e.Sequence.Active() {
			running.Wait()
			r.send(ctx, number, e)
			continue
		}
		slots <- struct{}{}
		at := number
		running.Go(func() {
			defer func() { <-slots }()
			r.send(ctx, at, e)
		})
	}
	running.Wait()
	if number == r.report.Masked {
		return nil, edgewise.Errorf("recorded.Replay", edgewise.NotFound,
			"there is nothing to replay: of %d recorded requests %d have masked inputs", number, r.report.Masked)
	}
	return r.finish(), ctx.Err()
}

// pace waits until a request is due that was recorded a time after the first one.
func (o *Options) pace(ctx context.Context, began time.Time, after time.Duration) error {
	if o.Speed == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(time.Until(began.Add(time.Duration(float64(after) / o.Speed))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send sends one request and notes what comes of it.
func (r *replay) send(ctx context.Context, number int, e *example.Example) {
	req := e.Request(r.Target.Version)
	req.Model.Name = r.Target.Name
	began := time.Now()
	resp, err := r.box.Infer(ctx, req)
	took := time.Since(began)
	d := Difference{Request: number, Arrived: e.Arrived}
	agrees, failed := err != nil && e.Error != "", err != nil && e.Error == ""
	switch {
	case failed:
		d.Error = err.Error()
	case err == nil && e.Error != "":
		d.Error = "it is answered now, and failed then: " + e.Error
	case err == nil:
		shown := slices.DeleteFunc(slices.Clone(e.Outputs), func(t edgewise.Tensor) bool {
			return slices.Contains(e.MaskedOutputs, t.Name)
		})
		found := compare.Answers(r.rulesOf(e), shown, resp.Outputs)
		agrees = found.Agrees
		d.Outputs = slices.DeleteFunc(found.Outputs, func(o admin.OutputComparison) bool { return o.Agrees })
	}
	resp.Release()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recorded, r.took = append(r.recorded, e.Took), append(r.took, took)
	r.report.Requests++
	switch {
	case agrees:
		r.report.Agreed++
		return
	case failed:
		r.report.Failed++
	default:
		r.report.Different++
	}
	if len(r.report.Worst) < keptDifferences {
		r.report.Worst = append(r.report.Worst, d)
	}
}

// rulesOf returns the rules for the outputs of an answer.
func (r *replay) rulesOf(e *example.Example) []admin.CompareRule {
	if !r.Exact {
		return r.Rules
	}
	rules := make([]admin.CompareRule, len(e.Outputs))
	for i := range e.Outputs {
		rules[i] = admin.CompareRule{Output: e.Outputs[i].Name, Kind: admin.CompareExact}
	}
	return rules
}

func (r *replay) finish() *Report {
	r.report.Recorded, r.report.Replayed = latenciesOf(r.recorded), latenciesOf(r.took)
	slices.SortFunc(r.report.Worst, func(a, b Difference) int { return cmp.Compare(a.Request, b.Request) })
	return r.report
}

func latenciesOf(list []time.Duration) (l Latencies) {
	if len(list) == 0 {
		return l
	}
	slices.Sort(list)
	at := func(percent int) float64 { return float64(list[(len(list)-1)*percent/100].Microseconds()) / 1000 }
	return Latencies{P50: at(50), P99: at(99)}
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) {
	version := ""
	if r.Version != 0 {
		version = fmt.Sprintf(" version %d", r.Version)
	}
	fmt.Fprintf(w, "model %q%s: %d of %d answers agree, %d differ, %d requests failed\n", r.Model, version, r.Agreed, r.Requests,
		r.Different, r.Failed)
	fmt.Fprintf(w, "  recorded: p50 %.3f ms, p99 %.3f ms; now, at the client: p50 %.3f ms, p99 %.3f ms\n", r.Recorded.P50,
		r.Recorded.P99, r.Replayed.P50, r.Replayed.P99)
	if r.Masked > 0 {
		fmt.Fprintf(w, "  %d more requests have masked inputs and were not sent\n", r.Masked)
	}
	for _, d := range r.Worst {
		fmt.Fprintf(w, "  request %d of %s: %s\n", d.Request, d.Arrived.Format(time.RFC3339), d.Error)
		for _, out := range d.Outputs {
			fmt.Fprintf(w, "    output %q by %s: %s; largest difference %.6g\n", out.Output, out.Kind, out.Reason, out.Largest)
		}
	}
}
