package admin

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// CapacityRequest is the body of POST /api/v1/capacity: whether the box carries models at rates.
type CapacityRequest struct {
	Models  []CapacityModel `json:"models"`
	Check   bool            `json:"check,omitempty"`   // also send requests at these rates, and show what comes of it
	Seconds int             `json:"seconds,omitempty"` // of the check; 0: 5
	Measure bool            `json:"measure,omitempty"` // measure the models again
}

// CapacityModel is the load of one model: its live version.
type CapacityModel struct {
	Model string  `json:"model"`
	Rate  float64 `json:"rate"`             // requests a second
	P99   float64 `json:"p99_ms,omitempty"` // that 99 % of them may take; 0: no bound
}

// Capacity answers whether the box carries a load, by a model of it, and what breaks first.
type Capacity struct {
	Feasible  bool               `json:"feasible"`
	Sentence  string             `json:"sentence"`
	Factor    float64            `json:"factor"` // that all rates may grow by together
	Breaks    string             `json:"breaks"` // the resource that breaks first when they do
	Resources []CapacityResource `json:"resources"`
	Models    []CapacityFound    `json:"models"`
	Unsaid    []string           `json:"unsaid"` // what the prediction does not know, as sentences
	Check     *CapacityCheck     `json:"check,omitempty"`
}

// CapacityResource is what a load needs of one resource.
type CapacityResource struct {
	Name   string  `json:"name"`
	Used   float64 `json:"used"`             // of what there is; of a latency, of its bound
	Factor float64 `json:"factor,omitempty"` // that all rates may grow by until it breaks; 0: it does not depend on them
	Detail string  `json:"detail"`
}

// CapacityFound is what was measured of a model, and what it is predicted to do in this load.
type CapacityFound struct {
	Model   string  `json:"model"`
	Version int64   `json:"version"`
	Rate    float64 `json:"rate"`
	Bound   float64 `json:"bound_ms,omitempty"` // of its p99
	Core    float64 `json:"core_ms"`            // core time of a request
	Alone   float64 `json:"alone"`              // requests a second that the box carries of it alone
	P99     float64 `json:"p99_ms,omitempty"`   // predicted; 0: more than the box carries
	Inputs  string  `json:"inputs"`             // FromGoldens and the others
}

// CapacityCheck is what came of a run at the rates.
type CapacityCheck struct {
	Held    bool              `json:"held"`
	Seconds float64           `json:"seconds"`
	Cores   float64           `json:"cores"` // of the cores that the models have, used by the box and its processes
	Models  []CapacityChecked `json:"models"`
}

// CapacityChecked is what came of one model's requests.
type CapacityChecked struct {
	Model    string  `json:"model"`
	Offered  float64 `json:"offered"`  // requests a second
	Answered float64 `json:"answered"` // within the time of the check
	Failed   int     `json:"failed"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Reason   string  `json:"reason,omitempty"` // why it did not hold
}

// Describe prints it.
func (c *Capacity) Describe(w io.Writer) {
	fmt.Fprintf(w, "%s\n\n", c.Sentence)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "RESOURCE\tUSED\tBREAKS AT\t")
	for _, r := range c.Resources {
		at := "-"
		if r.Factor > 0 {
			at = fmt.Sprintf("%.2f times these rates", r.Factor)
		}
		fmt.Fprintf(table, "%s\t%.0f %%\t%s\t%s\n", r.Name, 100*r.Used, at, r.Detail)
	}
	fmt.Fprintln(table, "\nMODEL\tRATE\tCORE TIME\tALONE\tP99\tINPUTS")
	for _, m := range c.Models {
		p99 := "-"
		if m.P99 > 0 {
			p99 = fmt.Sprintf("%.1f ms", m.P99)
		}
		fmt.Fprintf(table, "%s:%d\t%.6g/s\t%.3g ms\t%.4g/s\t%s\t%s\n", m.Model, m.Version, m.Rate, m.Core, m.Alone, p99, m.Inputs)
	}
	if c.Check != nil {
		fmt.Fprintln(table, "\nCHECK\tOFFERED\tANSWERED\tFAILED\tP50\tP99\t")
		for _, m := range c.Check.Models {
			fmt.Fprintf(table, "%s\t%.4g/s\t%.4g/s\t%d\t%.1f ms\t%.1f ms\t%s\n", m.Model, m.Offered, m.Answered, m.Failed, m.P50, m.P99, m.Reason)
		}
	}
	_ = table.Flush()
	if c.Check != nil {
		held := "it held"
		if !c.Check.Held {
			held = "it did not hold"
		}
		fmt.Fprintf(w, "\nchecked for %.0f s: %s, with %.0f %% of the cores\n", c.Check.Seconds, held, 100*c.Check.Cores)
	}
	for i, text := range c.Unsaid {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "- %s\n", text)
	}
}
