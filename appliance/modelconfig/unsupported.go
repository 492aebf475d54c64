package modelconfig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/pattern"
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
		"with each request as it is", func(m *edgewise.Model) bool {
		return m.SequenceBatching != nil && slices.ContainsFunc(m.SequenceBatching.State,
			func(s edgewise.SequenceState) bool { return s.UseGrowableMemory })
	}},
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
		"optimization.execution_accelerators.gpu_execution_accelerator", "the accelerators on a GPU are cuda, tensorrt and webgpu",
		func(m *edgewise.Model) bool {
			return slices.ContainsFunc(m.Accelerators().GPU, func(a edgewise.Accelerator) bool {
				return !slices.Contains([]string{"cuda", "tensorrt", "webgpu"}, strings.ToLower(a.Name))
			})
		},
	},
	{"optimization.execution_accelerators.cpu_execution_accelerator", "the CPU runs models without accelerators: " +
		"openvino and others are not part of this box", func(m *edgewise.Model) bool { return len(m.Accelerators().CPU) > 0 }},
}

// unsupported returns what m asks for and this build does not serve, each with the reason.
func unsupported(m *edgewise.Model, formats edgewise.Formats) []string {
	var found []string
	onlyGPU := anyGroup(func(g edgewise.InstanceGroup) bool { return g.Kind == edgewise.KindGPU })
	if onlyGPU(m) && !onGPU(m, formats) {
		found = append(found, "instance_group.kind: models of platform "+m.Platform+
			" do not run on a GPU: use KIND_CPU or KIND_AUTO")
	}
	if m.Decoupled() {
		found = append(found, withStreams(m, formats)...)
	}
	placed := anyGroup(func(g edgewise.InstanceGroup) bool { return g.Kind == kindModel })
	if f, _ := formats.Of(m); placed(m) && !f.Answers {
		found = append(found, "instance_group.kind: models of platform "+m.Platform+
			" do not place their own instances: use KIND_CPU or KIND_AUTO instead of KIND_MODEL")
	}
	for _, f := range features {
		if f.used(m) {
			found = append(found, f.name+": "+f.reason)
		}
	}
	return found
}

// withStreams returns what a decoupled model asks for and is not served.
func withStreams(m *edgewise.Model, formats edgewise.Formats) (found []string) {
	if f, ok := formats.Of(m); ok && !f.Answers {
		found = append(found, "model_transaction_policy.decoupled: models of platform "+m.Platform+
			" have exactly one response to a request")
	}
	if m.ResponseCache != nil && m.ResponseCache.Enable {
		found = append(found, "response_cache.enable: responses of a decoupled model are not cached")
	}
	if m.SequenceBatching != nil && len(m.SequenceBatching.State) > 0 {
		found = append(found, "sequence_batching.state: a decoupled model keeps its state itself")
	}
	return found
}

func anyTensor(in func(edgewise.ModelInput) bool, out func(edgewise.ModelOutput) bool) func(*edgewise.Model) bool {
	return func(m *edgewise.Model) bool {
		return slices.ContainsFunc(m.Input, in) || slices.ContainsFunc(m.Output, out)
	}
}

func anyGroup(used func(edgewise.InstanceGroup) bool) func(*edgewise.Model) bool {
	return func(m *edgewise.Model) bool { return slices.ContainsFunc(m.InstanceGroup, used) }
}

// checksumAgent is the one repository agent that there is: it holds files against sums that the author wrote down.
const checksumAgent = "checksum"

var (
	md5Sum        = pattern.New(`^[0-9a-fA-F]{32}$`)
	versionFolder = pattern.New(`^[1-9][0-9]*/`)
)

// Checksums returns the MD5 sums that m's repository agents want files to have, in lower-case hexadecimal by the path
// among the version's files. There are several where the configuration of a folder names the same file of several
// versions: one of them is the version's. The agent knows no other sum; what the store keeps is checked by SHA-256 in
// any case.
func Checksums(m *edgewise.Model) map[string][]string {
	sums := map[string][]string{}
	if m.ModelRepositoryAgents == nil {
		return sums
	}
	for _, agent := range m.ModelRepositoryAgents.Agents {
		for _, key := range sorted(agent.Parameters) {
			if path, ok := checksumPath(key); ok && agent.Name == checksumAgent {
				sums[path] = append(sums[path], strings.ToLower(agent.Parameters[key]))
			}
		}
	}
	return sums
}

// checksumPath reads a parameter's key, "MD5:" and a path in the model's folder. A version's own folder is left out:
// the files of a version stand side by side.
func checksumPath(key string) (path string, ok bool) {
	path, ok = strings.CutPrefix(key, "MD5:")
	return strings.TrimPrefix(path, versionFolder.FindString(path)), ok
}

// agents checks the repository agents. Those that are not there are refused.
func (c *checker) agents() {
	if c.m.ModelRepositoryAgents == nil {
		return
	}
	for i, agent := range c.m.ModelRepositoryAgents.Agents {
		if agent.Name != checksumAgent {
			continue
		}
		what := fmt.Sprintf("model_repository_agents: agents[%d]", i)
		if n := len(agent.Parameters); n > MaxChecksums {
			c.problem("%s: %d parameters, at most %d are allowed", what, n, MaxChecksums)
		}
		for _, key := range sorted(agent.Parameters) {
			path, ok := checksumPath(key)
			if !ok {
				c.problem("%s: parameter %s: want MD5: and the path of a file", what, shown(key))
				continue
			}
			if sum := agent.Parameters[key]; !md5Sum.MatchString(sum) {
				c.problem("%s: parameter %s: want 32 hexadecimal digits, got %.64q", what, shown(key), sum)
			}
			c.path(what+": parameter "+shown(key), path)
		}
	}
}

// otherAgents tells whether m asks for a repository agent that is not there.
func otherAgents(m *edgewise.Model) bool {
	return m.ModelRepositoryAgents != nil && slices.ContainsFunc(m.ModelRepositoryAgents.Agents,
		func(a edgewise.RepositoryAgent) bool { return a.Name != checksumAgent })
}

// firstResponse is the one family of metrics that a model can change.
const firstResponse = "nv_inference_first_response_histogram_ms"

// metrics checks model_metrics. Other families than the one are refused.
func (c *checker) metrics() {
	if c.m.ModelMetrics == nil {
		return
	}
	seen := map[string]bool{}
	for i, control := range c.m.ModelMetrics.MetricControl {
		what := fmt.Sprintf("model_metrics: metric_control[%d]", i)
		switch id := control.MetricIdentifier; {
		case id == nil:
			c.problem("%s: metric_identifier is missing", what)
		case id.Family == "":
			c.problem("%s: metric_identifier: family is empty", what)
		case seen[id.Family]:
			c.problem("%s: family %s is listed twice", what, shown(id.Family))
		default:
			seen[id.Family] = true
		}
		if control.HistogramOptions == nil {
			c.problem("%s: histogram_options is missing", what)
			continue
		}
		c.buckets(what+": histogram_options: buckets", control.HistogramOptions.Buckets)
	}
}

func (c *checker) buckets(what string, buckets []float64) {
	if n := len(buckets); n == 0 || n > MaxBuckets {
		c.problem("%s: want 1 to %d, got %d", what, MaxBuckets, n)
		return
	}
	last := 0.0
	for _, b := range buckets {
		if !(b > last) || b > maxBucket {
			c.problem("%s: want milliseconds above 0 and up to %s, ascending, got %v", what,
				strconv.FormatFloat(maxBucket, 'g', -1, 64), buckets)
			return
		}
		last = b
	}
}

// maxBucket is a day in milliseconds.
const maxBucket = 86400e3

// otherFamilies tells whether m asks for other buckets of a metric that has none of its own for each model.
func otherFamilies(m *edgewise.Model) bool {
	return m.ModelMetrics != nil && slices.ContainsFunc(m.ModelMetrics.MetricControl, func(c edgewise.MetricControl) bool {
		return c.MetricIdentifier != nil && c.MetricIdentifier.Family != "" && c.MetricIdentifier.Family != firstResponse
	})
}
