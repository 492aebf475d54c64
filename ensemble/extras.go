package ensemble

import (
	"maps"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// fanOut checks the fan-out of a step.
func (c *checker) fanOut(i int) {
	s, d := &c.g.steps[i], c.m.EnsembleScheduling.Step[i].FanOut
	if d == nil {
		return
	}
	if len(d.Input) == 0 {
		c.problem("%s: fan_out: input is empty: it names the inputs that are cut into rows", s.label)
	}
	for at, name := range d.Input {
		if !slices.ContainsFunc(s.inputs, func(in mapping) bool { return in.name == name }) {
			c.problem("%s: fan_out: input '%s' is not in input_map", s.label, name)
		}
		if slices.Contains(d.Input[:at], name) {
			c.problem("%s: fan_out: input '%s' is listed twice", s.label, name)
		}
	}
	if d.LeadingDims > edgewise.MaxRank {
		c.problem("%s: fan_out: leading_dims: want 1 to %d, got %d", s.label, edgewise.MaxRank, d.LeadingDims)
	}
	if c.m.MaxBatchSize > 0 && s.fan.leading < 2 {
		c.problem("%s: fan_out: leading_dims: the first dimension is the ensemble's batch, so want 2 or more, got %d", s.label, s.fan.leading)
	}
	if d.MaxRows > maxFanOutRows {
		c.problem("%s: fan_out: max_rows: want 1 to %d, got %d", s.label, maxFanOutRows, d.MaxRows)
	}
	if s.model != nil && d.RowsPerRequest > uint32(s.fan.each) {
		c.problem("%s: fan_out: rows_per_request: want at most %d, got %d: %s", s.label, s.fan.each, d.RowsPerRequest, s.fan.why())
	}
	for _, in := range s.inputs {
		if in.cut && in.optional && optionalInput(c.m, c.g.tensors[in.tensor].name) {
			c.problem("%s: fan_out: input '%s' may be missing in a request", s.label, in.name)
		}
	}
}

// why says what bounds the rows of one request.
func (f *fan) why() string {
	if !f.batched {
		return "the model does not batch"
	}
	return "that is what the model takes; beside inputs that are not cut, it is 1"
}

// condition checks the condition of a step.
func (c *checker) condition(i int) {
	s, d := &c.g.steps[i], c.m.EnsembleScheduling.Step[i].Condition
	if d == nil {
		return
	}
	if d.Tensor == "" {
		c.problem("%s: condition: tensor is missing", s.label)
	}
	if c.m.MaxBatchSize > 0 {
		c.problem("%s: condition: the ensemble must have max_batch_size 0, got %d: the elements of a batch cannot take "+
			"different ways", s.label, c.m.MaxBatchSize)
	}
	c.comparison(s, d)
	if d.Otherwise == stop && len(d.DefaultOutput) > 0 {
		c.problem("%s: condition: default_output goes with otherwise: SKIP", s.label)
	}
	for _, name := range slices.Sorted(maps.Keys(d.DefaultOutput)) {
		if !slices.ContainsFunc(s.outputs, func(out mapping) bool { return out.name == name }) {
			c.problem("%s: condition: default_output names output '%s', which is not in output_map", s.label, name)
		}
	}
	if d.Otherwise == skip {
		for at, out := range s.outputs {
			c.fallback(s, out, s.defaults[at], d.DefaultOutput[out.name])
		}
	}
}

// comparison checks that the tensor of a condition can be compared as it says.
func (c *checker) comparison(s *step, d *edgewise.EnsembleCondition) {
	made := c.maker(s.condition.tensor)
	text := d.Text != ""
	if made != nil {
		text = made.data == edgewise.Bytes
	}
	switch {
	case made != nil && !text && d.Text != "":
		c.problem("%s: condition: text is given, but tensor '%s' is of type %v", s.label, d.Tensor, made.data)
	case text && d.Value != 0:
		c.problem("%s: condition: value is given, but the elements of tensor '%s' are text", s.label, d.Tensor)
	}
	if text && d.Operator != equal && d.Operator != notEqual {
		c.problem("%s: condition: operator %s: text is compared with EQUAL or NOT_EQUAL", s.label, d.Operator)
	}
}

// fallback checks the default of one output of a step that may be skipped.
func (c *checker) fallback(s *step, out mapping, f fallback, d edgewise.EnsembleDefault) {
	what := s.label + ": condition: default_output '" + out.name + "'"
	if !f.there {
		c.problem("%s is missing: a step that is skipped needs one for each output", what)
		return
	}
	if d.Tensor != "" && (len(d.Dims) > 0 || d.Value != 0 || d.Text != "") {
		c.problem("%s: want a tensor, or dims with value or text, not both", what)
		return
	}
	if s.model == nil {
		return
	}
	own := outputOf(s.model, out.name)
	if own == nil {
		return
	}
	made := claim{who: "it is made", data: own.DataType, shape: s.outputShape(own.Dims)}
	if d.Tensor != "" {
		if other := c.maker(f.tensor); other != nil && (other.data != made.data || !compatible(other.shape, made.shape)) {
			c.problem("%s: tensor '%s' is %v%v, the output is %v%v", what, d.Tensor, other.data, other.shape, made.data, made.shape)
		}
		return
	}
	if _, err := filled(out.name, own.DataType, d); err != nil {
		c.problem("%s: %v", what, err)
		return
	}
	switch text := own.DataType == edgewise.Bytes; {
	case text && d.Value != 0:
		c.problem("%s: value is given, but the output is text", what)
	case !text && d.Text != "":
		c.problem("%s: text is given, but the output is of type %v", what, own.DataType)
	}
	if !made.shape.Accepts(d.Dims) {
		c.problem("%s: dims are %v, the output has shape %v", what, d.Dims, made.shape)
	}
}
