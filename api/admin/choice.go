package admin

import (
	"fmt"
	"strings"
	"time"
)

// What became of a candidate.
const (
	CandidateChosen   = "chosen"    // it serves
	CandidateSlower   = "slower"    // it answers alike and is not faster than the one that was chosen
	CandidateWrong    = "wrong"     // it answers otherwise than the CPU
	CandidateFailed   = "failed"    // it did not load, or a run of it failed
	CandidateNotTried = "not_tried" // this time; the next load tries it again

	// CandidateReference is the CPU, in FP32, where a version asks for less on its devices and is compared with it.
	CandidateReference = "reference"
)

// Choice is what was measured of a version on each device of the box, and which one serves.
type Choice struct {
	Device     string            `json:"device"` // of the candidate that was chosen; empty: its answers were wrong, and it is not loaded
	Reason     string            `json:"reason"`
	Measured   time.Time         `json:"measured"`
	Took       int64             `json:"took_ms"`
	Inputs     string            `json:"inputs,omitempty"`    // FromGoldens, FromSignature or FromWarmup
	Precision  string            `json:"precision,omitempty"` // that the version asks for in place of FP32: TF32, FP16, BF16 or INT8
	Hardware   []string          `json:"hardware"`            // that it was measured on
	Subject    string            `json:"subject"`             // digest of what was measured
	Candidates []ChoiceCandidate `json:"candidates"`          // the reference first
}

// ChoiceCandidate is one device, or several of one kind, that a version was tried on.
type ChoiceCandidate struct {
	Device      string            `json:"device"`
	Description string            `json:"description,omitempty"`
	State       string            `json:"state"` // chosen, slower, wrong, failed, not_tried or reference
	Reason      string            `json:"reason,omitempty"`
	Figures     []Figure          `json:"figures,omitempty"`    // a batch of 1 first
	Difference  *OutputDifference `json:"difference,omitempty"` // from the reference; nil: it was not compared
}

// Figure is how long runs of one batch size take: the median, and between which times it is with 95 % confidence.
type Figure struct {
	Rows         int     `json:"rows"`
	Milliseconds float64 `json:"milliseconds"`
	Low          float64 `json:"low_ms"`
	High         float64 `json:"high_ms"`
	Runs         int     `json:"runs"`
}

// OutputDifference is the difference of an output that is closest to what is allowed, or furthest beyond it.
type OutputDifference struct {
	Output  string  `json:"output"`
	Largest float64 `json:"largest"`           // of an element
	Allowed float64 `json:"allowed,omitempty"` // 0: the model's own rule says
}

// Candidate returns what was found of a device, nil when it is none of the candidates.
func (c *Choice) Candidate(device string) *ChoiceCandidate {
	for i := range c.Candidates {
		if c.Candidates[i].Device == device {
			return &c.Candidates[i]
		}
	}
	return nil
}

// String is the choice in one line, such as "cpu 8.1 ms, gpu:0 3.9 ms, gpu:0 is chosen".
func (c *Choice) String() string {
	var parts []string
	for _, one := range c.Candidates {
		text := one.Device + " " + strings.ReplaceAll(one.State, "_", " ")
		if len(one.Figures) > 0 {
			text = one.Device
			for i, f := range one.Figures {
				text += []string{" ", " and "}[min(i, 1)] + f.String()
			}
			if one.State == CandidateWrong || one.State == CandidateFailed {
				text += " " + one.State
			}
		}
		if d := one.Difference; d != nil && one.State == CandidateChosen && c.Precision != "" {
			text += fmt.Sprintf(" with %s: output %q differs by %.3g", c.Precision, d.Output, d.Largest)
		}
		if one.Reason != "" && one.State != CandidateChosen && one.State != CandidateSlower {
			text += ": " + one.Reason
		}
		parts = append(parts, text)
	}
	if c.Device != "" {
		parts = append(parts, c.Device+" is chosen")
	}
	return strings.Join(parts, ", ")
}

// String is the median, such as "8.1 ms", with the batch size when that is not 1.
func (f Figure) String() string {
	text := fmt.Sprintf("%.3g ms", f.Milliseconds)
	if f.Milliseconds >= 1000 {
		text = fmt.Sprintf("%.0f ms", f.Milliseconds)
	}
	if f.Rows > 1 {
		text += fmt.Sprintf(" for %d", f.Rows)
	}
	return text
}
