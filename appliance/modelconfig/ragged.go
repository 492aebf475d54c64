package modelconfig

import (
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

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
	for _, key := range sorted(c.m.Parameters) {
		if key == "padding_value" || key == "padding_sizes" {
			c.problem("parameters: %s: padding is excluded by %s", key, all)
		}
	}
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
