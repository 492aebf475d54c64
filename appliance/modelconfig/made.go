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
