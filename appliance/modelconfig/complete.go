package modelconfig

import (
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// Complete returns m with everything filled in that its author left out, in the way Triton does it: first Identify;
// then, if m declares no inputs or no outputs, from the model's signature in ins; then the defaults that do not depend
// on the model. No slice or map of the result is nil. m is not changed. ins may be nil, then nothing is taken from it.
//
// A written max_batch_size of 0 is kept, where Triton replaces it.
//
// Errors: those of Identify, and Invalid when m asks for batches and the model has no place for them, or d.Strict finds
// something left out.
func Complete(m *edgewise.Model, name string, files []string, ins *edgewise.Inspection, d Defaults) (*edgewise.Model,
	error,
) {
	c, err := Identify(m, name, files, d)
	if err != nil {
		return nil, err
	}
	if d.Strict {
		if err := strictly(c); err != nil {
			return nil, err
		}
	}
	if ins != nil && ins.Completed != nil {
		fromBackend(c, ins.Completed)
		ins = nil
	}
	if ins != nil && ins.MaxBatchSize != nil && c.MaxBatchSize == Unset {
		c.MaxBatchSize = *ins.MaxBatchSize
	}
	if ins != nil && (len(c.Input) == 0 || len(c.Output) == 0) {
		if err := fromSignature(c, ins, d); err != nil {
			return nil, err
		}
	}
	c.MaxBatchSize = max(c.MaxBatchSize, 0)
	if ins != nil {
		scalars(c, ins)
		if ins.Decoupled && c.ModelTransactionPolicy == nil {
			c.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{Decoupled: true}
		}
	}
	defaults(c, d)
	return Clone(c), nil
}

// fromBackend takes what the model's own program has made of the configuration: it was given c, and has filled in what
// was left open.
func fromBackend(c, own *edgewise.Model) {
	if own.MaxBatchSize >= 0 {
		c.MaxBatchSize = own.MaxBatchSize
	}
	if len(own.Input) > 0 {
		c.Input = own.Input
	}
	if len(own.Output) > 0 {
		c.Output = own.Output
	}
	if own.DynamicBatching != nil && schedulers(c) == 0 {
		c.DynamicBatching = own.DynamicBatching
	}
	if own.ModelTransactionPolicy != nil {
		c.ModelTransactionPolicy = own.ModelTransactionPolicy
	}
}

// fromSignature fills in the side that is missing, and how the model batches.
func fromSignature(c *edgewise.Model, ins *edgewise.Inspection, d Defaults) error {
	if t := unknownRank(c, ins); t != "" {
		return fail(c.Name, edgewise.Invalid, "input %q has no shape in the model: declare all inputs and outputs with "+
			"their dims", t)
	}
	fixed := unbatchable(ins)
	switch {
	case c.MaxBatchSize > 0 && fixed != "":
		return fail(c.Name, edgewise.Invalid, "max_batch_size is %d, but %s: set max_batch_size to 0", c.MaxBatchSize, fixed)
	case c.MaxBatchSize == Unset && fixed == "":
		c.MaxBatchSize = d.MaxBatchSize
	case c.MaxBatchSize == Unset:
		c.MaxBatchSize = 0
	}
	if c.MaxBatchSize > 1 && schedulers(c) == 0 {
		c.DynamicBatching = &edgewise.DynamicBatching{}
	}
	if len(c.Input) == 0 {
		c.Input = signatureInputs(c, ins, d.Formats)
	}
	if len(c.Output) == 0 {
		c.Output = signatureOutputs(c, ins)
	}
	return nil
}

// unknownRank names an input that would have to be filled in and of which the model does not say how many dimensions it
// has. "": there is none.
func unknownRank(c *edgewise.Model, ins *edgewise.Inspection) string {
	if len(c.Input) == 0 {
		for _, t := range ins.Inputs {
			if t.Shape == nil && !t.Optional && !isMade(c, inputSide, t.Name) {
				return t.Name
			}
		}
	}
	return ""
}

// unbatchable says which tensor keeps the model from batching: one without a variable first dimension. "": none does.
// Inputs that have a default stay as they are whatever the batch, so they do not count.
func unbatchable(ins *edgewise.Inspection) string {
	for _, t := range ins.Inputs {
		if !t.Optional && !batches(t.Shape) {
			return fmt.Sprintf("input %q has the shape %v in the model, without a variable first dimension", t.Name, t.Shape)
		}
	}
	for _, t := range ins.Outputs {
		if t.Shape == nil {
			return fmt.Sprintf("output %q has no shape in the model", t.Name)
		}
		if !batches(t.Shape) {
			return fmt.Sprintf("output %q has the shape %v in the model, without a variable first dimension", t.Name, t.Shape)
		}
	}
	return ""
}

func batches(s edgewise.Shape) bool { return len(s) > 0 && s[0] == -1 }

func signatureInputs(c *edgewise.Model, ins *edgewise.Inspection, formats edgewise.Formats) []edgewise.ModelInput {
	var inputs []edgewise.ModelInput
	format, _ := formats.Of(c)
	for _, t := range ins.Inputs {
		if t.Optional && !format.Guest || isMade(c, inputSide, t.Name) {
			continue // the model has a default for it
		}
		dims, reshape := clientDims(t.Shape, c.MaxBatchSize)
		inputs = append(inputs, edgewise.ModelInput{
			Name: t.Name, DataType: t.Type, Dims: dims, Reshape: reshape,
			Optional: t.Optional,
		})
	}
	return inputs
}

func signatureOutputs(c *edgewise.Model, ins *edgewise.Inspection) []edgewise.ModelOutput {
	var outputs []edgewise.ModelOutput
	for _, t := range ins.Outputs {
		if isMade(c, outputSide, t.Name) {
			continue
		}
		if t.Shape == nil { // its answers have the shape that it has
			outputs = append(outputs, edgewise.ModelOutput{Name: t.Name, DataType: t.Type, Dims: edgewise.Shape{-1}})
			continue
		}
		dims, reshape := clientDims(t.Shape, c.MaxBatchSize)
		outputs = append(outputs, edgewise.ModelOutput{Name: t.Name, DataType: t.Type, Dims: dims, Reshape: reshape})
	}
	return outputs
}

// clientDims returns the dims of a tensor as clients see it. They are never empty: one number per element of the batch,
// or one number in all, is [1] to clients and [] to the model.
func clientDims(shape edgewise.Shape, maxBatchSize int32) (edgewise.Shape, *edgewise.Reshape) {
	if maxBatchSize > 0 {
		shape = shape[1:]
	}
	if len(shape) == 0 {
		return edgewise.Shape{1}, &edgewise.Reshape{Shape: edgewise.Shape{}}
	}
	return shape, nil
}

// scalars lets an author write dims [1] for a tensor that is one number in the model, as Triton does: clients cannot be
// told of empty dims.
func scalars(c *edgewise.Model, ins *edgewise.Inspection) {
	for i := range c.Input {
		in := &c.Input[i]
		if in.AllowRaggedBatch {
			continue
		}
		in.Reshape = scalarReshape(in.Name, in.Dims, in.Reshape, c.MaxBatchSize, ins.Inputs)
	}
	for i := range c.Output {
		out := &c.Output[i]
		if scattered(c, out.Name) {
			continue
		}
		out.Reshape = scalarReshape(out.Name, out.Dims, out.Reshape, c.MaxBatchSize, ins.Outputs)
	}
}

func scalarReshape(name string, dims edgewise.Shape, r *edgewise.Reshape, maxBatchSize int32,
	tensors []edgewise.TensorInfo,
) *edgewise.Reshape {
	if r != nil || !dims.Equal(edgewise.Shape{1}) {
		return r
	}
	for _, t := range tensors {
		batched := maxBatchSize > 0 && len(t.Shape) == 1
		if t.Name == name && t.Shape != nil && (batched || maxBatchSize == 0 && len(t.Shape) == 0) {
			return &edgewise.Reshape{Shape: edgewise.Shape{}}
		}
	}
	return nil
}

// schedulers counts the members of the scheduling choice that are set.
func schedulers(m *edgewise.Model) int {
	return count(m.DynamicBatching != nil, m.SequenceBatching != nil, m.EnsembleScheduling != nil)
}

// count returns how many of choices are set.
func count(choices ...bool) (n int) {
	for _, set := range choices {
		if set {
			n++
		}
	}
	return n
}

// defaults fills in what does not depend on the model.
func defaults(c *edgewise.Model, d Defaults) {
	if c.VersionPolicy == nil {
		c.VersionPolicy = &edgewise.VersionPolicy{Latest: &edgewise.LatestVersions{}}
	}
	if latest := c.VersionPolicy.Latest; latest != nil && latest.NumVersions == 0 {
		latest.NumVersions = 1
	}
	if b := c.DynamicBatching; b != nil {
		b.PreferredBatchSize = preferred(b.PreferredBatchSize, c.MaxBatchSize)
	}
	if s := c.SequenceBatching; s != nil {
		if s.MaxSequenceIdle == 0 {
			s.MaxSequenceIdle = defaultSequenceIdle
		}
		if s.Oldest != nil {
			s.Oldest.PreferredBatchSize = preferred(s.Oldest.PreferredBatchSize, c.MaxBatchSize)
		}
	}
	if c.EnsembleScheduling == nil {
		defaultOptimization(c)
		defaultInstances(c, d)
		return
	}
	if c.ModelTransactionPolicy == nil { // an ensemble always has one: what it answers follows from its steps
		c.ModelTransactionPolicy = &edgewise.ModelTransactionPolicy{}
	}
	for i := range c.EnsembleScheduling.Step {
		if step := &c.EnsembleScheduling.Step[i]; step.ModelVersion == 0 {
			step.ModelVersion = -1
		}
	}
}

// defaultSequenceIdle is in microseconds.
const defaultSequenceIdle = 1_000_000

func preferred(sizes []int32, maxBatchSize int32) []int32 {
	if len(sizes) == 0 && maxBatchSize > 0 {
		return []int32{maxBatchSize}
	}
	return sizes
}

func defaultOptimization(c *edgewise.Model) {
	if c.Optimization == nil {
		c.Optimization = &edgewise.Optimization{}
	}
	for _, pinned := range []**edgewise.Switch{
		&c.Optimization.InputPinnedMemory,
		&c.Optimization.OutputPinnedMemory,
	} {
		if *pinned == nil {
			*pinned = &edgewise.Switch{Enable: true}
		}
	}
}

// remoteInstances is how many requests a server beside the box has at a time where nothing is said. It schedules them itself.
const remoteInstances = 16

// latency tells whether the model runs one request at a time, on all cores.
func latency(m *edgewise.Model) bool {
	return m.Parameters["execution_profile"].StringValue == "latency"
}

// defaultInstances names and counts the instance groups. A group that leaves the kind open stays open until it is loaded
// where its format runs on more than the CPU, whether the box has such a device now or not: one may be put in later.
func defaultInstances(c *edgewise.Model, d Defaults) {
	if len(c.InstanceGroup) == 0 {
		c.InstanceGroup = make([]edgewise.InstanceGroup, 1)
	}
	for i := range c.InstanceGroup {
		g := &c.InstanceGroup[i]
		if g.Name == "" {
			g.Name = fmt.Sprintf("%s_%d", c.Name, i)
		}
		if g.Kind == "" || g.Kind == edgewise.KindAuto {
			switch {
			case len(g.GPUs) > 0:
				g.Kind = edgewise.KindGPU
			case onGPU(c, d.Formats) && (g.Kind != "" || !external(c, d.Formats)):
				g.Kind = edgewise.KindAuto
			default:
				g.Kind = edgewise.KindCPU
			}
		}
		if g.Count == 0 {
			g.Count = instanceCount(c, g.Kind == edgewise.KindGPU, d)
		}
	}
}

// instanceCount is the count of an instance group that says none. On a GPU one instance is enough, because batches follow
// each other closely there.
func instanceCount(m *edgewise.Model, gpu bool, d Defaults) int32 {
	switch f, _ := d.Formats.Of(m); {
	case gpu:
		return 1
	case f.Remote: // each is a request that a server has
		return remoteInstances
	case latency(m) || f.Answers: // each is a process
		return 1
	}
	return max(min(d.InstanceCount, int32(MaxInstances/len(m.InstanceGroup))), 1)
}

// Placed returns a complete model for one kind of devices: groups whose kind and count its author left open have the count
// that holds there. declared is what the author wrote. m is not changed.
func Placed(m, declared *edgewise.Model, on edgewise.DeviceKind, d Defaults) *edgewise.Model {
	placed := *m
	placed.InstanceGroup = slices.Clone(m.InstanceGroup)
	for i := range placed.InstanceGroup {
		said := declared != nil && i < len(declared.InstanceGroup) && declared.InstanceGroup[i].Count > 0
		if g := &placed.InstanceGroup[i]; g.Kind == edgewise.KindAuto && !said {
			g.Count = instanceCount(m, on != edgewise.CPU, d)
		}
	}
	return &placed
}

// onGPU tells whether models of this format can run on a GPU.
func onGPU(m *edgewise.Model, formats edgewise.Formats) bool {
	f, _ := formats.Of(m)
	return slices.Contains(f.Devices, edgewise.GPU)
}

// external tells whether another program serves models of this format: many of them compute on the CPU, so one is put on
// a GPU only where it says so.
func external(m *edgewise.Model, formats edgewise.Formats) bool {
	f, _ := formats.Of(m)
	return f.External
}

// Ensemble returns the ensemble that a declaration without a folder of files comes to under a name. The model is nil when
// there is an error, unless the model is complete and only its declaration is wrong. Errors: those of Complete and
// Validate.
func Ensemble(declared *edgewise.Model, name string, d Defaults) (*edgewise.Model, error) {
	files := []string{"config.json"}
	m, err := Complete(declared, name, files, nil, d)
	if err != nil {
		return nil, err
	}
	return m, Validate(m, files, nil, d)
}

// strictly reports what Triton refuses in a configuration that is not completed from the model's file: missing inputs or
// outputs, dims of 0, and an empty reshape without max_batch_size. The error has the kind Invalid and names each problem.
func strictly(m *edgewise.Model) error {
	c := &checker{m: m}
	if len(m.Input) == 0 {
		c.problem("must specify 'input': engine.auto_complete is false")
	}
	if len(m.Output) == 0 {
		c.problem("must specify 'output': engine.auto_complete is false")
	}
	check := func(what string, dims edgewise.Shape, r *edgewise.Reshape) {
		if slices.Contains(dims, 0) {
			c.problem("%s: dimension must be integer >= 1, or -1 to indicate a variable-size dimension, got %v: "+
				"engine.auto_complete is false", what, dims)
		}
		if r != nil && len(r.Shape) == 0 && m.MaxBatchSize <= 0 {
			c.problem("%s: cannot have an empty reshape without max_batch_size: engine.auto_complete is false", what)
		}
	}
	for _, in := range m.Input {
		check("input "+shown(in.Name), in.Dims, in.Reshape)
	}
	for _, out := range m.Output {
		check("output "+shown(out.Name), out.Dims, out.Reshape)
	}
	return c.err(edgewise.Invalid)
}
