package modelconfig

import (
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// feature is something that a configuration may ask for and that this build does not do. It is refused when the model
// is uploaded or loaded, never silently left out.
type feature struct {
	name   string // the field
	reason string
	used   func(*edgewise.Model) bool
}

// features is the one table of what is not served. A row goes when the thing is built.
var features = []feature{
	{
		"sequence_batching.iterative_sequence", "a request has exactly one response",
		func(m *edgewise.Model) bool { return m.SequenceBatching != nil && m.SequenceBatching.IterativeSequence },
	},
	{"sequence_batching.state.use_growable_memory", "there is no GPU memory to grow in; a state may have another size " +
		"with each request as it is", anyState(func(s edgewise.SequenceState) bool { return s.UseGrowableMemory })},
	{
		"is_shape_tensor", "only TensorRT models have shape tensors",
		anyTensor(func(in edgewise.ModelInput) bool { return in.IsShapeTensor },
			func(out edgewise.ModelOutput) bool { return out.IsShapeTensor }),
	},
	{
		"is_non_linear_format_io", "only TensorRT models have such tensors",
		anyTensor(func(in edgewise.ModelInput) bool { return in.IsNonLinearFormatIO },
			func(out edgewise.ModelOutput) bool { return out.IsNonLinearFormatIO }),
	},
	{"model_transaction_policy.decoupled", "a request has exactly one response", func(m *edgewise.Model) bool {
		return m.ModelTransactionPolicy != nil && m.ModelTransactionPolicy.Decoupled
	}},
	{
		"model_operations", "libraries of custom operators are native code from an upload, which this box never runs",
		func(m *edgewise.Model) bool {
			return m.ModelOperations != nil && len(m.ModelOperations.OpLibraryFilename) > 0
		},
	},
	{"model_repository_agents", "only the agent checksum is served: others are native code", otherAgents},
	{"model_metrics", "only buckets of " + firstResponse + " can be chosen", otherFamilies},
	{"runtime", "the box chooses the runtime library", func(m *edgewise.Model) bool { return m.Runtime != "" }},
	{
		"cc_model_filenames", "there is one file for every device",
		func(m *edgewise.Model) bool { return len(m.CCModelFilenames) > 0 },
	},

	{"instance_group.kind", "no backend of this box places its own instances: use KIND_CPU or KIND_AUTO instead of " +
		"KIND_MODEL", anyGroup(func(g edgewise.InstanceGroup) bool { return g.Kind == kindModel })},
	{
		"instance_group.secondary_devices", "there are no secondary devices",
		anyGroup(func(g edgewise.InstanceGroup) bool { return len(g.SecondaryDevices) > 0 }),
	},
	{
		"instance_group.profile", "only TensorRT models have profiles",
		anyGroup(func(g edgewise.InstanceGroup) bool { return len(g.Profile) > 0 }),
	},
	{
		"instance_group.host_policy", "there are no host policies",
		anyGroup(func(g edgewise.InstanceGroup) bool { return g.HostPolicy != "" }),
	},

	{
		"optimization.execution_accelerators.gpu_execution_accelerator", "the accelerators on a GPU are cuda and tensorrt",
		func(m *edgewise.Model) bool {
			return slices.ContainsFunc(accelerators(m).GPU, func(a edgewise.Accelerator) bool {
				return !slices.Contains([]string{"cuda", "tensorrt"}, strings.ToLower(a.Name))
			})
		},
	},
	{"optimization.execution_accelerators.cpu_execution_accelerator", "the CPU runs models without accelerators: " +
		"openvino and others are not part of this box", func(m *edgewise.Model) bool { return len(accelerators(m).CPU) > 0 }},
}

// unsupported returns what m asks for and this build does not serve, each with the reason.
func unsupported(m *edgewise.Model, formats edgewise.Formats) []string {
	var found []string
	onlyGPU := anyGroup(func(g edgewise.InstanceGroup) bool { return g.Kind == edgewise.KindGPU })
	if onlyGPU(m) && !onGPU(m, formats) {
		found = append(found, "instance_group.kind: models of platform "+m.Platform+
			" do not run on a GPU: use KIND_CPU or KIND_AUTO")
	}
	for _, f := range features {
		if f.used(m) {
			found = append(found, f.name+": "+f.reason)
		}
	}
	return found
}

func anyState(used func(edgewise.SequenceState) bool) func(*edgewise.Model) bool {
	return func(m *edgewise.Model) bool {
		return m.SequenceBatching != nil && slices.ContainsFunc(m.SequenceBatching.State, used)
	}
}

func anyTensor(in func(edgewise.ModelInput) bool, out func(edgewise.ModelOutput) bool) func(*edgewise.Model) bool {
	return func(m *edgewise.Model) bool {
		return slices.ContainsFunc(m.Input, in) || slices.ContainsFunc(m.Output, out)
	}
}

func anyGroup(used func(edgewise.InstanceGroup) bool) func(*edgewise.Model) bool {
	return func(m *edgewise.Model) bool { return slices.ContainsFunc(m.InstanceGroup, used) }
}

func accelerators(m *edgewise.Model) edgewise.ExecutionAccelerators {
	if m.Optimization == nil || m.Optimization.ExecutionAccelerators == nil {
		return edgewise.ExecutionAccelerators{}
	}
	return *m.Optimization.ExecutionAccelerators
}
