package sched

import (
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// The model parameters of padding.
const (
	PaddingParameter      = "padding_value" // a number: fill variable dimensions up with it; "padding_value.x" for input x
	PaddingSizesParameter = "padding_sizes" // sizes to fill up to, as "16,32,64"; left out: the largest of the batch
)

// MaxPaddingSizes bounds how many sizes padding_sizes may list, MaxPaddingSize each of them.
const (
	MaxPaddingSizes = 64
	MaxPaddingSize  = 1 << 20
)

// NewPadding reads what m says of padding; nil when it says nothing. Which dimensions of its tensors are the same is
// told by their names in the model file. Errors, of kind Invalid: padding cannot be done or its outputs could not be
// cut back.
func NewPadding(m *edgewise.Model, file *edgewise.Inspection) (*Padding, error) {
	if _, ok := m.Parameters[PaddingParameter]; !ok {
		return nil, paddingWithoutValue(m)
	}
	if file == nil {
		return nil, badPadding(m, "the model has no file that names its dimensions")
	}
	if m.MaxBatchSize < 1 {
		return nil, badPadding(m, "it needs a max_batch_size above 0")
	}
	p := &Padding{inputs: map[string]padded{}, outputs: map[string]padded{}}
	if err := p.readSizes(m); err != nil {
		return nil, err
	}
	for i := range m.Input {
		if err := p.addInput(m, &m.Input[i], file); err != nil {
			return nil, err
		}
	}
	if len(p.names) == 0 {
		return nil, badPadding(m, "no input has a dimension of variable size beside the batch")
	}
	for i := range m.Output {
		if err := p.addOutput(m, &m.Output[i], file); err != nil {
			return nil, err
		}
	}
	return p, checkPaddedNames(m, p)
}

func badPadding(m *edgewise.Model, format string, args ...any) error {
	return edgewise.Errorf(
		"sched.NewPadding", edgewise.Invalid, "model %q: "+PaddingParameter+": "+format,
		append([]any{m.Name}, args...)...,
	)
}

// paddingWithoutValue refuses the parameters that only make sense beside PaddingParameter.
func paddingWithoutValue(m *edgewise.Model) error {
	for key := range m.Parameters {
		if key == PaddingSizesParameter || strings.HasPrefix(key, PaddingParameter+".") {
			return badPadding(m, "it is not set, and %q has no effect without it", key)
		}
	}
	return nil
}

// checkPaddedNames refuses values for inputs that are not padded.
func checkPaddedNames(m *edgewise.Model, p *Padding) error {
	for key := range m.Parameters {
		if name, ok := strings.CutPrefix(key, PaddingParameter+"."); ok && len(p.inputs[name].dims) == 0 {
			return badPadding(m, "%q: input %q has no dimension of variable size", key, name)
		}
	}
	return nil
}

func (p *Padding) readSizes(m *edgewise.Model) error {
	text, ok := m.Parameters[PaddingSizesParameter]
	if !ok {
		return nil
	}
	for field := range strings.SplitSeq(text.StringValue, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
		descends := len(p.sizes) > 0 && n <= p.sizes[len(p.sizes)-1]
		if err != nil || n < 1 || n > MaxPaddingSize || descends || len(p.sizes) == MaxPaddingSizes {
			return badPadding(
				m, "%s: want up to %d sizes from 1 to %d, ascending and separated by commas, got %.64q",
				PaddingSizesParameter, MaxPaddingSizes, MaxPaddingSize, text.StringValue,
			)
		}
		p.sizes = append(p.sizes, n)
	}
	return nil
}

func (p *Padding) addInput(m *edgewise.Model, in *edgewise.ModelInput, file *edgewise.Inspection) error {
	if !slices.Contains(in.Dims, -1) {
		return nil
	}
	value := m.Parameters[PaddingParameter].StringValue
	if own, ok := m.Parameters[PaddingParameter+"."+in.Name]; ok {
		value = own.StringValue
	}
	element, ok := encode(in.DataType, value)
	switch {
	case !ok:
		return badPadding(m, "input %q: %.64q is not a %v to pad with", in.Name, value, in.DataType)
	case in.Optional:
		return badPadding(m, "input %q is optional and has dimensions of variable size", in.Name)
	case in.Reshape != nil:
		return badPadding(m, "input %q has a reshape and dimensions of variable size", in.Name)
	}
	rule, err := p.rule(m, "input", in.Name, in.Dims, file.Inputs)
	if err != nil {
		return err
	}
	rule.element, rule.size = element, in.DataType.Size()
	p.inputs[in.Name] = rule
	return nil
}

// rule finds the names of a tensor's variable dimensions. Those of inputs become known, those of outputs must be.
func (p *Padding) rule(
	m *edgewise.Model, what, name string, dims edgewise.Shape, tensors []edgewise.TensorInfo,
) (padded, error) {
	rule := padded{dims: make([]int, len(dims))}
	for d, size := range dims {
		rule.dims[d] = -1
		if size >= 0 {
			continue
		}
		dimension := dimensionName(tensors, name, d+1)
		at := slices.Index(p.names, dimension)
		switch {
		case dimension == "":
			return rule, badPadding(
				m,
				"%s %q: dimension %d has no name in the model file, so it cannot be told which sizes belong together",
				what, name, d+1,
			)
		case at < 0 && what == "output":
			return rule, badPadding(
				m, "output %q: dimension %d, %q, is no dimension of an input, so it could not be cut back", name, d+1,
				dimension,
			)
		case at < 0:
			at = len(p.names)
			p.names = append(p.names, dimension)
		}
		rule.dims[d] = at
	}
	return rule, nil
}

// dimensionName is a dimension's name in the model file, "" when it has none.
func dimensionName(tensors []edgewise.TensorInfo, name string, d int) string {
	for _, t := range tensors {
		if t.Name == name && d < len(t.Dims) {
			return t.Dims[d]
		}
	}
	return ""
}

func (p *Padding) addOutput(m *edgewise.Model, out *edgewise.ModelOutput, file *edgewise.Inspection) error {
	if !slices.Contains(out.Dims, -1) {
		return nil
	}
	switch {
	case out.Reshape != nil:
		return badPadding(m, "output %q has a reshape and dimensions of variable size", out.Name)
	case out.DataType.Size() == 0:
		return badPadding(m, "output %q of type %v cannot be cut back", out.Name, out.DataType)
	}
	rule, err := p.rule(m, "output", out.Name, out.Dims, file.Outputs)
	if err != nil {
		return err
	}
	rule.size = out.DataType.Size()
	p.outputs[out.Name] = rule
	return nil
}

// encode writes a number as one element. ok is false when the type cannot hold it, and for half precision when it is
// not 0.
func encode(t edgewise.DataType, text string) (element []byte, ok bool) {
	switch {
	case t == edgewise.Bool:
		return []byte{map[string]byte{"1": 1}[text]}, text == "0" || text == "1"
	case t.IsSigned(), t.IsUnsigned():
		bits, ok := scalar.ParseInteger(t, text)
		return scalar.AppendBits(nil, t, bits), ok
	case t.IsFloat():
		size := 64
		if t == edgewise.FP32 {
			size = 32
		}
		v, err := strconv.ParseFloat(text, size)
		return scalar.AppendFloat(nil, t, v), err == nil && (t.Size() > 2 || v == 0)
	}
	return nil, false
}
