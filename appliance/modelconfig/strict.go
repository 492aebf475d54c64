package modelconfig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// strictly reports what Triton refuses in a configuration that is not completed from the model's file: missing inputs or
// outputs, dims of 0, and an empty reshape without max_batch_size. The error has the kind Invalid and names each problem.
func strictly(m *edgewise.Model) error {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(m.Input) == 0 {
		add("must specify 'input': engine.auto_complete is false")
	}
	if len(m.Output) == 0 {
		add("must specify 'output': engine.auto_complete is false")
	}
	check := func(what string, dims edgewise.Shape, r *edgewise.Reshape) {
		if slices.Contains(dims, 0) {
			add("%s: dimension must be integer >= 1, or -1 to indicate a variable-size dimension, got %v: engine.auto_complete is false", what, dims)
		}
		if r != nil && len(r.Shape) == 0 && m.MaxBatchSize <= 0 {
			add("%s: cannot have an empty reshape without max_batch_size: engine.auto_complete is false", what)
		}
	}
	for _, in := range m.Input {
		check("input "+shown(in.Name), in.Dims, in.Reshape)
	}
	for _, out := range m.Output {
		check("output "+shown(out.Name), out.Dims, out.Reshape)
	}
	if len(problems) == 0 {
		return nil
	}
	return fail(m.Name, edgewise.Invalid, "%s", strings.Join(problems, fmt.Sprintf("\nmodel %q: ", m.Name)))
}
