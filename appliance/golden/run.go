package golden

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/compare"
)

// Bounds of a run and of its report.
const (
	runTime      = 30 * time.Second // of one golden
	allTime      = 5 * time.Minute  // of all
	reportBytes  = 512 << 10
	answersBytes = 256 << 10 // of the answers in a report
	maxAnswer    = 8 << 10   // bytes of the tensors of one of them
	maxReason    = 1 << 10   // bytes of an error in a report
	shownFailed  = 3         // goldens that the error about a version names
)

func reportKey(id edgewise.ModelID) string { return key(id.Name, strconv.FormatInt(id.Version, 10)) }

// Run has a version answer the goldens of its model, which it is loaded for when it is not ready, and keeps the report.
// Errors: NotFound, why the version cannot be loaded, Corrupt.
func (g *Goldens) Run(ctx context.Context, id edgewise.ModelID) (report admin.GoldenReport, err error) {
	err = g.config.Trial(ctx, id, func() error {
		report, err = g.run(ctx, id)
		return err
	})
	return report, err
}

// Report returns the latest report of a version. Errors: NotFound.
func (g *Goldens) Report(id edgewise.ModelID) (report admin.GoldenReport, err error) {
	err = g.config.Documents.View(func(tx edgewise.DocumentsTx) error {
		text := tx.Get(ReportsBucket, reportKey(id))
		if text == nil {
			return edgewise.Errorf("golden.Report", edgewise.NotFound, "version %d of model %q has not run its goldens",
				id.Version, id.Name)
		}
		if err := json.Unmarshal(text, &report); err != nil {
			return edgewise.Errorf("golden.Report", edgewise.Corrupt, "the report of model %v is damaged: %w", id, err)
		}
		report.Model = id.Name // it may have had another when it ran
		return nil
	})
	return report, err
}

// Prove runs the goldens on a loaded version that is to go live. Errors: Conflict, with the reason admin.ReasonGoldens,
// when it does not pass them and the policy requires it; also when they cannot be run.
func (g *Goldens) Prove(ctx context.Context, id edgewise.ModelID) error {
	var s admin.GoldenSettings
	some := false
	err := g.config.Documents.View(func(tx edgewise.DocumentsTx) (err error) {
		if s, err = settings(tx, id.Name); err != nil || s.Policy == admin.GoldensOff {
			return err
		}
		goldens, _, err := list(tx, id.Name)
		some = len(goldens) > 0
		return err
	})
	if err != nil || !some {
		return err
	}
	report, err := g.run(ctx, id)
	if err != nil && s.Policy == admin.GoldensWarn {
		g.config.Logger.Warn("goldens were not run", "model", id.Name, "version", id.Version, "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	attributes := []any{"model", id.Name, "version", id.Version, "failed", report.Failed, "of", len(report.Results)}
	switch {
	case report.Passed:
		g.config.Logger.Info("goldens passed", attributes...)
		return nil
	case s.Policy == admin.GoldensWarn:
		g.config.Logger.Warn("goldens failed, and the policy lets the version go live", attributes...)
		return nil
	}
	g.config.Logger.Error("goldens failed", attributes...)
	return refusal(id, report)
}

// refusal is the error about a version that does not pass.
func refusal(id edgewise.ModelID, report admin.GoldenReport) error {
	var reasons []string
	for _, r := range report.Results {
		if !r.Passed && len(reasons) < shownFailed {
			reasons = append(reasons, reason(r))
		}
	}
	if more := report.Failed - len(reasons); more > 0 {
		reasons = append(reasons, fmt.Sprintf("and %d more", more))
	}
	e := edgewise.Errorf("golden.Prove", edgewise.Conflict, "version %d of model %q fails %d of %d goldens: %s",
		id.Version, id.Name, report.Failed, len(report.Results), strings.Join(reasons, "; ")).WithReason(admin.ReasonGoldens)
	e.Model = id
	return e
}

// reason says in a few words why a golden failed.
func reason(r admin.GoldenResult) string {
	name := r.Name
	if name == "" {
		name = r.Golden
	}
	if r.Error != "" {
		return fmt.Sprintf("%q: %s", name, r.Error)
	}
	for _, out := range r.Outputs {
		if !out.Agrees {
			return fmt.Sprintf("%q: output %q: %s", name, out.Output, out.Reason)
		}
	}
	return fmt.Sprintf("%q", name)
}

// run has a ready version answer the goldens of its model one after the other, and keeps the report.
func (g *Goldens) run(ctx context.Context, id edgewise.ModelID) (admin.GoldenReport, error) {
	began := time.Now()
	report := admin.GoldenReport{
		Model: id.Name, Version: id.Version, Time: began.UTC(), Results: []admin.GoldenResult{},
	}
	var goldens []admin.Golden
	var s admin.GoldenSettings
	err := g.config.Documents.View(func(tx edgewise.DocumentsTx) (err error) {
		if s, err = settings(tx, id.Name); err == nil {
			goldens, _, err = list(tx, id.Name)
		}
		return err
	})
	if err != nil {
		return report, err
	}
	report.Policy = s.Policy
	limited, cancel := context.WithTimeout(ctx, allTime)
	defer cancel()
	answers := answersBytes
	for _, one := range goldens {
		result := g.try(limited, id, one, s.Rules)
		if answers -= len(result.Answer); answers < 0 {
			result.Answer = nil
		}
		if err := ctx.Err(); err != nil {
			return report, err // the caller has left: nothing is known of the version
		}
		if !result.Passed {
			report.Failed++
		}
		report.Results = append(report.Results, result)
	}
	report.Passed, report.Milliseconds = report.Failed == 0, time.Since(began).Milliseconds()
	bound(&report)
	return report, g.keep(id, report)
}

// keep stores a report, unless its version was deleted meanwhile.
func (g *Goldens) keep(id edgewise.ModelID, report admin.GoldenReport) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, err := g.config.Record(id.Name); err != nil || r.Version(id.Version) == nil {
		return err
	}
	return g.update(id, func(tx edgewise.DocumentsTx) error { return put(tx, ReportsBucket, reportKey(id), report) })
}

// try has a version answer one golden.
func (g *Goldens) try(
	ctx context.Context, id edgewise.ModelID, one admin.Golden, rules []admin.CompareRule,
) admin.GoldenResult {
	result := admin.GoldenResult{Golden: one.ID, Name: one.Name, Outputs: []admin.OutputComparison{}}
	began := time.Now()
	compared, answer, err := g.ask(ctx, id, one, rules)
	result.Milliseconds = float64(time.Since(began).Microseconds()) / 1000
	if err != nil {
		text := err.Error()
		result.Error = strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
		return result
	}
	result.Passed, result.Outputs, result.Answer = compared.Agrees, compared.Outputs, answer
	for i := range result.Outputs {
		if result.Outputs[i].Agrees {
			result.Outputs[i].Worst = nil
		}
	}
	return result
}

// ask sends the request of a golden to a version and compares the answer, which it returns where it differs and is short.
func (g *Goldens) ask(
	ctx context.Context, id edgewise.ModelID, one admin.Golden, rules []admin.CompareRule,
) (compared admin.AnswerComparison, answer json.RawMessage, err error) {
	if ctx.Err() != nil {
		return compared, nil, edgewise.Errorf("golden.ask", edgewise.Deadline, "not run: all goldens together may take %v", allTime)
	}
	e, err := g.example(one)
	if err != nil {
		return compared, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	req := e.Request(id.Version)
	req.Model.Name = id.Name
	if req.Sequence.Active() { // of its own, so that no golden follows on another
		req.Sequence = edgewise.Sequence{ID: rand.Uint64() | 1, Start: true, End: true}
	}
	resp, err := g.config.Infer.Infer(ctx, req)
	if err != nil {
		if edgewise.KindOf(err) == edgewise.Deadline {
			return compared, nil, edgewise.Errorf("golden.ask", edgewise.Deadline, "no answer within %v", runTime)
		}
		return compared, nil, err
	}
	defer resp.Release()
	if compared = compare.Answers(rules, e.Outputs, resp.Outputs); !compared.Agrees {
		answer = kserve.ShortAnswer(resp, maxAnswer)
	}
	return compared, answer, nil
}

// bound takes the least interesting out of a report until it is within its bound: outputs that agree, answers, the worst
// elements, all outputs.
func bound(report *admin.GoldenReport) {
	for _, less := range []func(*admin.GoldenResult){
		func(r *admin.GoldenResult) {
			r.Outputs = slices.DeleteFunc(r.Outputs, func(out admin.OutputComparison) bool { return out.Agrees })
		},
		func(r *admin.GoldenResult) { r.Answer = nil },
		func(r *admin.GoldenResult) {
			for i := range r.Outputs {
				r.Outputs[i].Worst = nil
			}
		},
		func(r *admin.GoldenResult) { r.Outputs = []admin.OutputComparison{} },
	} {
		if text, err := json.Marshal(report); err == nil && len(text) <= reportBytes {
			return
		}
		for i := range report.Results {
			less(&report.Results[i])
		}
	}
}
