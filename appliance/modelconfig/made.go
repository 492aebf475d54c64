package modelconfig

import (
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// side tells inputs from outputs.
type side int

const (
	inputSide side = iota
	outputSide
)

// madeTensor is a tensor of the model file that clients do not see, because the box makes or keeps it.
type madeTensor struct {
	side  side
	what  string // for messages
	name  string
	data  edgewise.DataType
	dims  edgewise.Shape // without the batch dimension
	whole bool           // dims are the whole shape: there is no batch dimension
}

// made returns the tensors that a configuration declares outside input and output: controls and states of sequences,
// and what is made from batches.
func made(m *edgewise.Model) []madeTensor {
	var list []madeTensor
	if b := m.SequenceBatching; b != nil {
		for _, in := range b.ControlInput {
			list = append(list, madeTensor{
				inputSide, "sequence_batching: control_input " + shown(in.Name), in.Name,
				controlType(in),
				edgewise.Shape{1},
				false,
			})
		}
		for _, s := range b.State {
			what := "sequence_batching: state " + shown(s.InputName)
			list = append(list, madeTensor{inputSide, what + ": input_name", s.InputName, s.DataType, s.Dims, false},
				madeTensor{outputSide, what + ": output_name", s.OutputName, s.DataType, s.Dims, false})
		}
	}
	for i, b := range m.BatchInput {
		for _, name := range b.TargetName {
			what := fmt.Sprintf("batch_input[%d]: target_name %s", i, shown(name))
			list = append(list, madeTensor{inputSide, what, name, b.DataType, batchInputShape(b.Kind), true})
		}
	}
	return list
}

// isMade tells whether clients do not see a tensor of the model file.
func isMade(m *edgewise.Model, on side, name string) bool {
	return slices.ContainsFunc(made(m), func(t madeTensor) bool { return t.side == on && t.name == name })
}

// madeTensor checks an input that the box makes, and notes that it is there.
func (c *checker) madeTensor(t madeTensor, seen map[string]bool) {
	if t.name == "" {
		return // a problem of its own
	}
	whole := tensor{what: t.what, name: t.name, data: t.data, dims: t.dims}
	c.name(whole, t.what, 0, seen)
	if len(t.dims) > 0 {
		c.dims(t.what+": dims", t.dims)
	}
	if c.ins != nil {
		c.compareMade(t, c.ins.Inputs)
	}
}

// madeOutput checks an output that the box keeps. It may stand among the outputs, too: then clients see it.
func (c *checker) madeOutput(t madeTensor, seen map[string]bool) {
	if t.name == "" {
		return // a problem of its own
	}
	if seen[t.name] {
		i := slices.IndexFunc(c.m.Output, func(out edgewise.ModelOutput) bool { return out.Name == t.name })
		switch {
		case i < 0:
			c.problem("%s: %s is declared twice", t.what, shown(t.name))
		case c.m.Output[i].DataType != t.data || !c.m.Output[i].Dims.Equal(t.dims) || c.m.Output[i].Reshape != nil:
			c.problem("%s: output %s is declared as %s%v, and the state as %s%v: want the same, without reshape", t.what,
				shown(t.name), configName(c.m.Output[i].DataType), c.m.Output[i].Dims, configName(t.data), t.dims)
		}
		return
	}
	c.name(tensor{what: t.what, name: t.name}, t.what, 0, seen)
	if c.ins != nil {
		c.compareMade(t, c.ins.Outputs)
	}
}

// compareMade holds a tensor against the model file.
func (c *checker) compareMade(t madeTensor, signature []edgewise.TensorInfo) {
	i := slices.IndexFunc(signature, func(info edgewise.TensorInfo) bool { return info.Name == t.name })
	if i < 0 {
		names := make([]string, len(signature))
		for i := range signature {
			names[i] = signature[i].Name
		}
		c.problem("%s: %s is not in the model%s", t.what, shown(t.name), listed("it has", names))
		return
	}
	if t.whole {
		c.matchWhole(t, &signature[i])
		return
	}
	c.match(tensor{what: t.what, name: t.name, data: t.data, dims: t.dims}, &signature[i])
}

// The kinds of batch input that have two dimensions in the model, and of batch output.
const (
	batchItemShape = "BATCH_ITEM_SHAPE"
	batchScatter   = "BATCH_SCATTER_WITH_INPUT_SHAPE"
)

// batchInputShape is the whole shape that a batch input has in the model.
func batchInputShape(kind string) edgewise.Shape {
	if kind == batchItemShape {
		return edgewise.Shape{-1, -1}
	}
	return edgewise.Shape{-1}
}

// ragged checks an input whose requests are put behind each other in one dimension.
func (c *checker) ragged(t tensor, in edgewise.ModelInput) {
	if in.Optional {
		c.problem("%s: optional is excluded by allow_ragged_batch", t.what)
	}
	if t.reshape != nil {
		c.problem("%s: reshape is excluded by allow_ragged_batch: the model sees one dimension", t.what)
	}
	if c.ins != nil && t.name != "" {
		c.compareMade(madeTensor{inputSide, t.what, t.name, t.data, edgewise.Shape{-1}, true}, c.ins.Inputs)
	}
}

// matchWhole compares a tensor that has no batch dimension of its own, and whose sizes are those of the batch.
func (c *checker) matchWhole(t madeTensor, info *edgewise.TensorInfo) {
	if t.data != info.Type {
		c.problem("%s: data_type: the model wants %s, got %s", t.what, typeName(*info), configName(t.data))
	}
	if info.Shape == nil {
		return // the model does not say how many dimensions there are
	}
	if len(info.Shape) != len(t.dims) || info.Shape[0] != -1 {
		c.problem("%s: the model wants shape %v, and what is made from a batch has shape %v", t.what, info.Shape, t.dims)
	}
}

// scattered tells whether an output is cut by an input's shape.
func scattered(m *edgewise.Model, output string) bool {
	return slices.ContainsFunc(m.BatchOutput, func(b edgewise.BatchOutput) bool {
		return slices.Contains(b.TargetName, output)
	})
}

// batches checks allow_ragged_batch, batch_input and batch_output against the rest.
func (c *checker) batches() {
	ragged := slices.ContainsFunc(c.m.Input, func(in edgewise.ModelInput) bool { return in.AllowRaggedBatch })
	if !ragged && len(c.m.BatchInput)+len(c.m.BatchOutput) == 0 {
		return
	}
	const all = "allow_ragged_batch, batch_input and batch_output"
	if c.m.MaxBatchSize == 0 {
		c.problem("%s need max_batch_size above 0", all)
	}
	if b := c.m.SequenceBatching; b != nil && b.Oldest == nil && c.m.MaxBatchSize > 1 {
		c.problem("%s: sequence_batching with the strategy direct excludes them: it makes one batch of all slots; use oldest",
			all)
	}
	c.unpadded(all)
	for i, b := range c.m.BatchInput {
		what := fmt.Sprintf("batch_input[%d]", i)
		c.batchNames(what, b.TargetName, b.SourceInput)
		if b.DataType != edgewise.Int32 && b.DataType != edgewise.FP32 {
			c.problem("%s: data_type: want TYPE_INT32 or TYPE_FP32, got %s", what, configName(b.DataType))
		}
	}
	seen := map[string]bool{}
	for i, b := range c.m.BatchOutput {
		what := fmt.Sprintf("batch_output[%d]", i)
		c.batchNames(what, b.TargetName, b.SourceInput)
		for _, name := range b.TargetName {
			j := slices.IndexFunc(c.m.Output, func(out edgewise.ModelOutput) bool { return out.Name == name })
			switch {
			case seen[name]:
				c.problem("%s: output %s is scattered twice", what, shown(name))
			case j < 0:
				c.problem("%s: %s is not an output", what, shown(name))
			case c.m.Output[j].Reshape != nil:
				c.problem("%s: output %s: reshape is excluded by it", what, shown(name))
			}
			seen[name] = true
		}
		if b.Kind != batchScatter {
			c.problem("%s: kind: unknown name %.64q", what, b.Kind)
		}
	}
}

// unpadded refuses the parameters that ask for padding.
func (c *checker) unpadded(by string) {
	for _, key := range []string{"padding_sizes", "padding_value"} {
		if _, there := c.m.Parameters[key]; there {
			c.problem("parameters: %s: padding is excluded by %s", key, by)
		}
	}
}

func (c *checker) batchNames(what string, targets, sources []string) {
	if len(targets) == 0 {
		c.problem("%s: target_name is empty: want at least one", what)
	}
	if len(sources) != 1 {
		c.problem("%s: source_input: want exactly one, got %d", what, len(sources))
		return
	}
	if !slices.ContainsFunc(c.m.Input, func(in edgewise.ModelInput) bool { return in.Name == sources[0] }) {
		c.problem("%s: source_input %s is not an input", what, shown(sources[0]))
	}
}
