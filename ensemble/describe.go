package ensemble

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// Platform is the platform of ensembles.
const Platform = "ensemble"

// Format returns the format of ensembles.
func Format() edgewise.Format {
	return edgewise.Format{Platform: Platform, Devices: []edgewise.DeviceKind{edgewise.CPU}}
}

// Is tells whether m declares an ensemble.
func Is(m *edgewise.Model) bool { return m.Platform == Platform || m.EnsembleScheduling != nil }

// StepModels lists the names of the models that an ensemble's steps run, each once; none for any other model.
func StepModels(m *edgewise.Model) []string {
	var names []string
	if m.EnsembleScheduling == nil {
		return nil
	}
	for _, s := range m.EnsembleScheduling.Step {
		if s.ModelName != "" && !slices.Contains(names, s.ModelName) {
			names = append(names, s.ModelName)
		}
	}
	return names
}

// Inspection returns of an ensemble what a backend reads from the file of another model.
func Inspection(m *edgewise.Model) *edgewise.Inspection {
	ins := &edgewise.Inspection{Opsets: map[string]int64{}, Operators: map[string]int{}}
	info := func(s edgewise.Spec) edgewise.TensorInfo {
		t := edgewise.TensorInfo{Name: s.Name, Type: s.Type, Datatype: s.Type.String(), Shape: s.Shape, Optional: s.Optional}
		if m.MaxBatchSize > 0 {
			t.Dims = make([]string, len(s.Shape))
			t.Dims[0] = "batch"
		}
		return t
	}
	for _, s := range m.Inputs() {
		ins.Inputs = append(ins.Inputs, info(s))
	}
	for _, s := range m.Outputs() {
		ins.Outputs = append(ins.Outputs, info(s))
	}
	for _, s := range m.EnsembleScheduling.Step {
		id := edgewise.ModelID{Name: s.ModelName}
		if s.Pinned != nil {
			id.Version = s.Pinned.Version
		}
		ins.Steps = append(ins.Steps, id)
	}
	return ins
}

// ModelsOf lists what versions declare, in their order.
func ModelsOf(versions []*edgewise.Version) []*edgewise.Model {
	list := make([]*edgewise.Model, len(versions))
	for i, v := range versions {
		list[i] = v.Model
	}
	return list
}
