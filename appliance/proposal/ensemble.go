package proposal

import "github.com/edgewise-ai/edgewise"

// names lead from a model's tensors to the ensemble's.
type names map[string]string

func ensemble(name string, in []edgewise.ModelInput, out []edgewise.ModelOutput,
	steps ...edgewise.EnsembleStep,
) *edgewise.Model {
	return &edgewise.Model{
		Name: name, Platform: "ensemble", Input: in, Output: out,
		EnsembleScheduling: &edgewise.EnsembleScheduling{Step: steps},
	}
}

func step(model string, in, out names) edgewise.EnsembleStep {
	return edgewise.EnsembleStep{ModelName: model, ModelVersion: -1, InputMap: in, OutputMap: out}
}

func bytesIn(name string, n int64) edgewise.ModelInput {
	return edgewise.ModelInput{Name: name, DataType: edgewise.Bytes, Dims: edgewise.Shape{n}}
}

func out1(name string, t edgewise.DataType) edgewise.ModelOutput {
	return edgewise.ModelOutput{Name: name, DataType: t, Dims: edgewise.Shape{-1}}
}

func out2(name string, t edgewise.DataType, rows, columns int64) edgewise.ModelOutput {
	return edgewise.ModelOutput{Name: name, DataType: t, Dims: edgewise.Shape{rows, columns}}
}
