package step

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Outcome is what came of one case.
type Outcome struct {
	Case    string   `json:"case"`
	Problem string   `json:"problem,omitempty"` // why it failed; empty: it passed
	Log     []string `json:"log,omitempty"`     // what the step wrote
	Used    Used     `json:"used"`
}

// Used is what one request used.
type Used struct {
	Fuel   uint64        `json:"fuel"`           // units of about one instruction
	Memory int64         `json:"memory_bytes"`   // of the guest
	Guest  time.Duration `json:"guest_ns"`       // in the step's own code
	Host   time.Duration `json:"host_ns"`        // in kernels and other models
	Copy   time.Duration `json:"input_copy_ns"`  // writing the inputs into the guest
	Check  time.Duration `json:"output_read_ns"` // checking the outputs
}

func usedBy(r *edgewise.Result) Used {
	return Used{Fuel: r.Guest.Fuel, Memory: r.Guest.Memory, Guest: r.Guest.Time, Host: r.Guest.Host, Copy: r.Input, Check: r.Output}
}

// Check runs a case. The error is not about the step but about the case itself: it does not fit the step.
func (l *Loaded) Check(ctx context.Context, c *Case) (Outcome, error) {
	outcome := Outcome{Case: c.Name}
	req, err := c.request(l.Model)
	if err != nil {
		return outcome, err
	}
	if c.open() {
		outcome.Problem = `it has neither "response" nor "error": "edgewise step test --record" writes what the step answers into it`
		return outcome, nil
	}
	want, err := c.wanted(l, req)
	if err != nil {
		return outcome, err
	}
	l.models.set(c.Models)
	l.lines.take()
	result, err := l.run(ctx, req, want)
	outcome.Log = l.lines.take()
	if err != nil {
		outcome.Problem = c.judgeError(err)
	} else {
		defer result.Free()
		outcome.Used = usedBy(result)
		if outcome.Problem, err = c.judge(result); err != nil {
			return outcome, err
		}
	}
	if outcome.Problem == "" {
		outcome.Problem = c.judgeLog(outcome.Log)
	}
	return outcome, nil
}

// wanted are the outputs that the request names, else those that the response does.
func (c *Case) wanted(l *Loaded, req *edgewise.Request) ([]string, error) {
	if len(req.Outputs) > 0 || c.Response == nil {
		return l.outputNames(req), nil
	}
	response, err := kserve.DecodeInferResponse(c.Response, -1, kserve.Limits{})
	if err != nil {
		return nil, c.wrong("response", err)
	}
	names := make([]string, len(response.Outputs))
	for i, t := range response.Outputs {
		if names[i] = t.Name; !slices.ContainsFunc(l.Model.Output, func(o edgewise.ModelOutput) bool { return o.Name == t.Name }) {
			return nil, c.wrong("response", edgewise.Errorf("step.Check", edgewise.Invalid, "the step declares no output %q", t.Name))
		}
	}
	return names, nil
}

func (c *Case) judgeError(err error) string {
	if c.Error == "" {
		return err.Error()
	}
	if !strings.Contains(err.Error(), c.Error) {
		return fmt.Sprintf("the error is %q: want one with %q", err, c.Error)
	}
	return ""
}

func (c *Case) judge(result *edgewise.Result) (string, error) {
	if c.Error != "" {
		return fmt.Sprintf("it answered: want an error with %q", c.Error), nil
	}
	want, err := kserve.DecodeInferResponse(c.Response, -1, kserve.Limits{})
	if err != nil {
		return "", c.wrong("response", err)
	}
	for i := range want.Outputs {
		w := &want.Outputs[i]
		k := slices.IndexFunc(result.Outputs, func(t edgewise.Tensor) bool { return t.Name == w.Name })
		if k < 0 {
			return fmt.Sprintf("output %q is missing", w.Name), nil
		}
		if problem := compare(&result.Outputs[k], w, c.Tolerance); problem != "" {
			return problem, nil
		}
	}
	return "", nil
}

func (c *Case) judgeLog(log []string) string {
	rest := log
	for _, want := range c.Log {
		i := slices.IndexFunc(rest, func(line string) bool { return strings.Contains(line, want) })
		if i < 0 {
			return fmt.Sprintf("the log lacks a line with %q; it has %q", want, log)
		}
		rest = rest[i+1:]
	}
	return ""
}
