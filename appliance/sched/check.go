package sched

import (
	"fmt"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
	"github.com/edgewise-ai/edgewise/picture"
)

// Checker compares requests with a model. Its messages are those of Triton, in Triton's order, because clients match on
// them: count, names, batch size, data type, shape, bytes. It is safe for concurrent use.
type Checker struct {
	model    *edgewise.Model
	least    int64 // rows of a request
	required int
	inputs   map[string]*tensorRule
	outputs  map[string]*tensorRule
	names    []string // of all outputs, in declared order
}

// tensorRule is what one tensor must look like for the client and for the backend.
type tensorRule struct {
	index   int
	spec    edgewise.Spec
	reshape *edgewise.Reshaping // nil: the backend sees the client's shape
}

// declared returns the shape that the configuration gives to a tensor of this shape. A tensor that has no dimensions in
// the model is declared with one of size 1, and requests may leave that out.
func (r *tensorRule) declared(shape edgewise.Shape) edgewise.Shape {
	if !r.reshape.Scalar() || len(shape)+1 != len(r.spec.Shape) {
		return shape
	}
	return append(slices.Clip(shape), 1)
}

// NewChecker makes a Checker for m.
func NewChecker(m *edgewise.Model) *Checker {
	c := &Checker{model: m, least: leastRows(m), inputs: map[string]*tensorRule{}, outputs: map[string]*tensorRule{}}
	for i, spec := range m.Inputs() {
		c.inputs[spec.Name] = &tensorRule{
			index: i, spec: spec, reshape: m.Reshaping(m.Input[i].Dims, m.Input[i].Reshape),
		}
		if !spec.Optional {
			c.required++
		}
	}
	for i, spec := range m.Outputs() {
		c.outputs[spec.Name] = &tensorRule{
			index: i, spec: spec, reshape: m.Reshaping(m.Output[i].Dims, m.Output[i].Reshape).Inverse(),
		}
		c.names = append(c.names, spec.Name)
	}
	return c
}

// leastRows is how many rows a request to m has at least: none, unless each row belongs to a sequence, or what the
// model is told of its batch, or how its outputs are cut, depends on there being one.
func leastRows(m *edgewise.Model) int64 {
	_, pads := m.Parameters[PaddingParameter]
	if m.SequenceBatching != nil || pads || newRagged(m) != nil {
		return 1
	}
	return 0
}

// Checked is a request that agrees with the model.
type Checked struct {
	Inputs  []edgewise.Tensor // in the model's order, in the shapes that the configuration declares
	Outputs []string          // that are wanted; never empty
	Rows    int               // on dimension 0; 1 for models that do not batch
}

// Check says why a request contradicts the model (kind Invalid).
func (c *Checker) Check(req *edgewise.Request) error {
	_, err := c.Admit(req, nil)
	return err
}

// Admit is Check, and returns what the request asks for. The inputs are appended to a list that the caller owns.
func (c *Checker) Admit(req *edgewise.Request, inputs []edgewise.Tensor) (Checked, error) {
	checked := Checked{Inputs: inputs, Outputs: req.Outputs}
	err := c.checkNames(req)
	if err != nil {
		return checked, err
	}
	if checked.Rows, err = c.checkBatch(req.Inputs); err != nil {
		return checked, err
	}
	for i := range req.Inputs {
		picture.Settle(&req.Inputs[i])
		in, rule := req.Inputs[i], c.inputs[req.Inputs[i].Name]
		in.Shape = rule.declared(in.Shape)
		if fault := c.checkTensor(&in, rule.spec); fault != nil {
			err = fault // of several the last is told, as Triton mostly does
			continue
		}
		checked.Inputs = append(checked.Inputs, in)
	}
	if err != nil {
		return checked, err
	}
	c.sort(checked.Inputs)
	if len(checked.Outputs) == 0 {
		checked.Outputs = c.names
	}
	return checked, nil
}

// check makes j of a request: Admit, with the inputs in the shapes of the backend.
func (c *Checker) check(req *edgewise.Request, j *job) error {
	checked, err := c.Admit(req, j.inputs)
	if err != nil {
		return err
	}
	j.batch, j.want, j.inputs = checked.Rows, checked.Outputs, c.reshaped(checked.Inputs)
	return nil
}

// reshaped gives inputs the shapes that the backend sees.
func (c *Checker) reshaped(inputs []edgewise.Tensor) []edgewise.Tensor {
	for i := range inputs {
		inputs[i].Shape = c.inputs[inputs[i].Name].reshape.Apply(inputs[i].Shape)
	}
	return inputs
}

// Inputs returns the inputs of a request as the backend sees them. Errors: those of Check.
func (c *Checker) Inputs(req *edgewise.Request) ([]edgewise.Tensor, error) {
	checked, err := c.Admit(req, nil)
	if err != nil {
		return nil, err
	}
	return c.reshaped(checked.Inputs), nil
}

// Trial makes the required inputs of a request, as the backend sees them. Errors: those of trial.Inputs.
func (c *Checker) Trial(size trial.Size, fill trial.Fill) ([]edgewise.Tensor, error) {
	inputs, err := trial.Inputs(c.model, size, fill)
	return c.reshaped(inputs), err
}

// sort puts inputs into the model's order, so that those of two requests can be compared and joined one by one.
func (c *Checker) sort(inputs []edgewise.Tensor) {
	slices.SortFunc(inputs, func(a, b edgewise.Tensor) int { return c.inputs[a.Name].index - c.inputs[b.Name].index })
}

func (c *Checker) checkNames(req *edgewise.Request) error {
	if n := len(req.Inputs); n < c.required || n > len(c.inputs) {
		return c.wrongCount(req.Inputs)
	}
	for i := range req.Inputs {
		if c.inputs[req.Inputs[i].Name] == nil {
			return c.Invalid("unexpected inference input '%s' for model '%s'", req.Inputs[i].Name, c.model.Name)
		}
		if slices.ContainsFunc(req.Inputs[:i], func(t edgewise.Tensor) bool { return t.Name == req.Inputs[i].Name }) {
			return c.Invalid("input '%s' already exists in request", req.Inputs[i].Name)
		}
	}
	if missing := c.missing(req.Inputs); len(missing) > 0 {
		return c.wrongCount(req.Inputs)
	}
	for _, name := range req.Outputs {
		if c.outputs[name] == nil {
			return c.Invalid("unexpected inference output '%s' for model '%s'", name, c.model.Name)
		}
	}
	return nil
}

func (c *Checker) wrongCount(got []edgewise.Tensor) error {
	var names []string
	for i := range got {
		names = append(names, got[i].Name)
	}
	want := fmt.Sprintf("expected %d inputs", c.required)
	if c.required != len(c.inputs) {
		want = fmt.Sprintf("expected number of inputs between %d and %d", c.required, len(c.inputs))
	}
	text := fmt.Sprintf(
		"%s but got %d inputs for model '%s'. Got input(s) [%s]", want, len(got), c.model.Name, quote(names),
	)
	missing := c.missing(got)
	if len(missing) == 0 {
		return c.Invalid("%s, but the model has only [%s].", text, quote(c.declared()))
	}
	return c.Invalid(
		"%s, but missing required input(s) [%s]. Please provide all required input(s).", text, quote(missing),
	)
}

func (c *Checker) declared() []string {
	var names []string
	for i := range c.model.Input {
		names = append(names, c.model.Input[i].Name)
	}
	return names
}

// missing lists the required inputs that got lacks, in declared order.
func (c *Checker) missing(got []edgewise.Tensor) []string {
	var names []string
	for i := range c.model.Input {
		in := &c.model.Input[i]
		if !in.Optional && !slices.ContainsFunc(got, func(t edgewise.Tensor) bool { return t.Name == in.Name }) {
			names = append(names, in.Name)
		}
	}
	return names
}

// checkBatch returns the batch size that all inputs agree on, 1 for models that do not batch. It may be 0: the model
// runs on no rows, as it does on the runtime alone.
func (c *Checker) checkBatch(inputs []edgewise.Tensor) (int, error) {
	if c.model.MaxBatchSize == 0 || len(inputs) == 0 { // all inputs may be optional
		return 1, nil
	}
	batch := int64(0)
	for i := range inputs {
		in := &inputs[i]
		switch {
		case len(in.Shape) == 0:
			return 0, c.Invalid(
				"input '%s' has no shape but model requires batch dimension for '%s'", in.Name, c.model.Name,
			)
		case i > 0 && in.Shape[0] != batch:
			return 0, c.Invalid("input '%s' batch size does not match other inputs for '%s'", in.Name, c.model.Name)
		}
		if batch = in.Shape[0]; batch < 0 {
			return 0, c.Invalid(
				"input '%s' of model '%s': shape %v has a negative size", in.Name, c.model.Name, in.Shape,
			)
		}
	}
	if batch < c.least {
		return 0, c.Invalid("inference request batch-size must be >= %d for '%s'", c.least, c.model.Name)
	}
	if batch > int64(c.model.MaxBatchSize) {
		return 0, c.Invalid("inference request batch-size must be <= %d for '%s'", c.model.MaxBatchSize, c.model.Name)
	}
	return int(batch), nil
}

func (c *Checker) checkTensor(in *edgewise.Tensor, spec edgewise.Spec) error {
	if in.Type != spec.Type {
		return c.Invalid(
			"inference input '%s' data-type is '%v', but model '%s' expects '%v'", in.Name, in.Type, c.model.Name,
			spec.Type,
		)
	}
	elements, ok := in.Shape.Elements()
	if !ok || len(in.Shape) > edgewise.MaxRank {
		return c.Invalid(
			"input '%s' of model '%s': shape %v has a negative size, too many elements or more than %d dimensions",
			in.Name, c.model.Name, in.Shape, edgewise.MaxRank,
		)
	}
	if !spec.Shape.Accepts(in.Shape) {
		return c.wrongShape(in, spec)
	}
	if in.Type == edgewise.Bytes {
		if edgewise.CheckFraming(in.Data, elements, "") == nil {
			return nil
		}
		place := fmt.Sprintf("for inference input '%s' for model '%s'", in.Name, c.model.Name)
		return c.Invalid("%w", edgewise.CheckFraming(in.Data, elements, place))
	}
	if want := elements * in.Type.Size(); int64(len(in.Data)) != want {
		return c.Invalid(
			"input byte size mismatch for input '%s' for model '%s'. Expected %d, got %d", in.Name, c.model.Name, want,
			len(in.Data),
		)
	}
	return nil
}

func (c *Checker) wrongShape(in *edgewise.Tensor, spec edgewise.Spec) error {
	note := ""
	if c.model.MaxBatchSize > 0 {
		note = " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be " +
			"prepended to each input shape. If you want to specify the full shape including the batch dim in " +
			"your input dims config, try setting max_batch_size to zero."
	}
	return c.Invalid(
		"unexpected shape for input '%s' for model '%s'. Expected %v, got %v.%s", in.Name, c.model.Name, spec.Shape,
		in.Shape, note,
	)
}

// finish gives the outputs of a run the shapes that the client expects, and refuses a result of another name or type
// than the model declares. Sizes may differ: files often declare sizes of outputs that their operators do not keep, and
// the shape in the answer is the true one.
func (c *Checker) finish(r *edgewise.Result) error {
	for i := range r.Outputs {
		out := &r.Outputs[i]
		rule := c.outputs[out.Name]
		if rule == nil || out.Type != rule.spec.Type {
			return edgewise.Errorf(
				"sched.finish", edgewise.Internal,
				"model %q: the backend made output %q of type %v, which the model does not declare", c.model.Name,
				out.Name, out.Type,
			)
		}
		out.Shape = rule.reshape.Apply(out.Shape)
	}
	return nil
}

// Invalid makes an error of kind Invalid that names the model.
func (c *Checker) Invalid(format string, args ...any) error {
	return &edgewise.Error{
		Op: "sched.check", Kind: edgewise.Invalid, Model: edgewise.ModelID{Name: c.model.Name},
		Err: fmt.Errorf(format, args...),
	}
}

// quote lists names as Triton does: 'a','b'.
func quote(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "'" + strings.Join(names, "','") + "'"
}
