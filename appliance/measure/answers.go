package measure

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/compare"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
)

// Tolerance is how much an element of an output may differ between two devices, as a part of the output's largest number:
// other kernels add in another order, and some multiply with fewer bits. Integers, truth values and texts do not differ.
func Tolerance(t edgewise.DataType) float64 {
	switch t {
	case edgewise.FP64, edgewise.FP32:
		return 3e-3
	case edgewise.FP16:
		return 1e-2
	case edgewise.BF16:
		return 5e-2
	}
	return 0
}

// leastMagnitude is what the largest number of an output counts as where it is smaller: a sigmoid that is close to 0
// everywhere, as for random inputs, differs by the rounding of its steps, which are a large part of its numbers.
const leastMagnitude = 1e-3

// wrongAnswer says that a candidate answers otherwise than the reference.
type wrongAnswer struct{ reason string }

// Error returns the reason.
func (w *wrongAnswer) Error() string { return w.reason }

// compare runs all samples on a candidate and compares its answers with the reference's.
func (r *running) compare(ctx context.Context, number int, s Subject) error {
	for i, sample := range r.samples {
		out, _, free, err := s.Run(ctx, sample.Inputs)
		if err != nil {
			return err
		}
		list, wrong := r.differences(r.answers[i], out)
		free()
		for _, d := range list {
			if worst := &r.found.Candidates[number].Difference; *worst == nil || share(d) > share(**worst) || wrong != nil {
				*worst = &d
			}
		}
		if wrong != nil {
			return wrong
		}
	}
	return nil
}

// share is a difference as a part of what is allowed.
func share(d admin.OutputDifference) float64 {
	return d.Largest / max(d.Allowed, math.SmallestNonzeroFloat32)
}

// differences compares an answer with that of the reference. Where it is wrong, the one output that is wrong is returned.
func (t Trial) differences(want, got []edgewise.Tensor) (list []admin.OutputDifference, wrong error) {
	rules := slices.Clone(t.Rules)
	allowed := map[string]float64{}
	for i := range want {
		tolerance := Tolerance(want[i].Type)
		if tolerance == 0 || slices.ContainsFunc(rules, func(r admin.CompareRule) bool { return r.Output == want[i].Name }) {
			continue
		}
		most := max(tolerance, t.Tolerance) * max(trial.Magnitude(&want[i]), leastMagnitude)
		allowed[want[i].Name] = most
		rules = append(rules, admin.CompareRule{Output: want[i].Name, Kind: admin.CompareTolerance, Absolute: most})
	}
	for _, one := range compare.Answers(rules, want, got).Outputs {
		d := admin.OutputDifference{Output: one.Output, Largest: one.Largest, Allowed: allowed[one.Output]}
		if one.Agrees {
			list = append(list, d)
			continue
		}
		reason := fmt.Sprintf("output %q: %s", one.Output, one.Reason)
		if d.Allowed > 0 && one.Different > 0 {
			reason = fmt.Sprintf("output %q differs by up to %.3g, and %.3g is allowed", one.Output, d.Largest, d.Allowed)
		}
		return []admin.OutputDifference{d}, &wrongAnswer{reason}
	}
	return list, nil
}
