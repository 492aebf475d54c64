package modelconfig

import (
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// InitialStateFolder is the folder of a version that holds the data files of initial states.
const InitialStateFolder = "initial_state"

// The kind of control that carries a sequence's id. The others are false or true.
const controlID = "CONTROL_SEQUENCE_CORRID"

// controlType is the type of a control input; TYPE_INVALID when it cannot be told.
func controlType(in edgewise.ControlInput) edgewise.DataType {
	if len(in.Control) == 0 {
		return edgewise.InvalidType
	}
	switch c := in.Control[0]; {
	case c.Kind == controlID:
		return c.DataType
	case len(c.Int32FalseTrue) > 0:
		return edgewise.Int32
	case len(c.FP32FalseTrue) > 0:
		return edgewise.FP32
	case len(c.BoolFalseTrue) > 0:
		return edgewise.Bool
	}
	return edgewise.InvalidType
}

// sequences checks sequence_batching.
func (c *checker) sequences() {
	b := c.m.SequenceBatching
	if b == nil {
		return
	}
	const what = "sequence_batching"
	if b.Direct != nil && b.Oldest != nil {
		c.problem("%s: want at most one of direct and oldest", what)
	}
	c.queueTime(what+": max_sequence_idle_microseconds", b.MaxSequenceIdle)
	if c.m.ResponseCache != nil && c.m.ResponseCache.Enable {
		c.problem("%s: response_cache is excluded by it: an answer depends on those before it", what)
	}
	c.unpadded(what)
	c.strategy(b)
	c.controls(b)
	c.states(b)
}

func (c *checker) strategy(b *edgewise.SequenceBatching) {
	each := int64(max(c.m.MaxBatchSize, 1))
	if d := b.Direct; d != nil {
		c.queueTime("sequence_batching: direct: max_queue_delay_microseconds", d.MaxQueueDelay)
		if u := d.MinimumSlotUtilization; !(u >= 0 && u <= 1) {
			c.problem("sequence_batching: direct: minimum_slot_utilization: want 0 to 1, got %v", u)
		}
	}
	if o := b.Oldest; o != nil {
		c.queueTime("sequence_batching: oldest: max_queue_delay_microseconds", o.MaxQueueDelay)
		c.preferred("sequence_batching: oldest", o.PreferredBatchSize)
		if o.MaxCandidateSequences < 0 {
			c.problem("sequence_batching: oldest: max_candidate_sequences: want 0 (max_batch_size) or more, got %d",
				o.MaxCandidateSequences)
		} else if o.MaxCandidateSequences > 0 {
			each = int64(o.MaxCandidateSequences)
		}
	}
	var instances int64
	for _, g := range c.m.InstanceGroup {
		instances += max(int64(g.Count), 0)
	}
	if n := each * max(instances, 1); n > MaxSequences {
		c.problem("sequence_batching: %d sequences for each of %d instances: at most %d over all instances are allowed", each,
			max(instances, 1), MaxSequences)
	}
}

func (c *checker) controls(b *edgewise.SequenceBatching) {
	kinds := map[string]bool{}
	for i, in := range b.ControlInput {
		what := fmt.Sprintf("sequence_batching: control_input[%d]", i)
		if in.Name != "" {
			what = "sequence_batching: control_input " + shown(in.Name)
		} else {
			c.problem("%s: name is empty", what)
		}
		if len(in.Control) != 1 {
			c.problem("%s: want exactly one control, got %d", what, len(in.Control))
			continue
		}
		control := in.Control[0]
		if kinds[control.Kind] {
			c.problem("%s: %s stands at another control input, too", what, control.Kind)
		}
		kinds[control.Kind] = true
		c.control(what, control)
	}
}

func (c *checker) control(what string, control edgewise.Control) {
	pairs, pair := 0, 2
	for _, n := range []int{len(control.Int32FalseTrue), len(control.FP32FalseTrue), len(control.BoolFalseTrue)} {
		if n > 0 {
			pairs, pair = pairs+1, n
		}
	}
	if control.Kind == controlID {
		allowed := []edgewise.DataType{edgewise.Uint64, edgewise.Int64, edgewise.Uint32, edgewise.Int32, edgewise.Bytes}
		if !slices.Contains(allowed, control.DataType) {
			c.problem("%s: data_type of %s: want TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 or TYPE_STRING, got %s", what,
				controlID, configName(control.DataType))
		}
		if pairs > 0 {
			c.problem("%s: %s takes no int32_false_true, fp32_false_true or bool_false_true", what, controlID)
		}
		return
	}
	switch {
	case pairs != 1:
		c.problem("%s: %s: want exactly one of int32_false_true, fp32_false_true and bool_false_true, got %d", what,
			control.Kind, pairs)
	case pair != 2:
		c.problem("%s: %s: want exactly 2 values, for false and for true, got %d", what, control.Kind, pair)
	}
}

func (c *checker) states(b *edgewise.SequenceBatching) {
	if n := len(b.State); n > MaxStates {
		c.problem("sequence_batching: %d states, at most %d are allowed", n, MaxStates)
	}
	for i, s := range b.State {
		what := fmt.Sprintf("sequence_batching: state[%d]", i)
		if s.InputName != "" {
			what = "sequence_batching: state " + shown(s.InputName)
		}
		if s.InputName == "" || s.OutputName == "" {
			c.problem("%s: want input_name and output_name", what)
		}
		if s.DataType == edgewise.InvalidType {
			c.problem("%s: data_type is missing", what)
		}
		if len(s.Dims) == 0 {
			c.problem("%s: dims is empty", what)
		}
		if len(s.InitialState) > 1 {
			c.problem("%s: initial_state: want at most one, got %d", what, len(s.InitialState))
		}
		if !stateFits(s.DataType, variableAs(s.Dims, 1)) {
			c.problem("%s: takes more than %d bytes", what, MaxStateBytes)
		}
		for _, initial := range s.InitialState {
			c.initialState(what+": initial_state", s, initial)
		}
	}
}

// variableAs is dims with a size in place of -1.
func variableAs(dims edgewise.Shape, size int64) edgewise.Shape {
	fixed := slices.Clone(dims)
	for i := range fixed {
		if fixed[i] == -1 {
			fixed[i] = size
		}
	}
	return fixed
}

// stateFits tells whether a state of fixed dims takes at most MaxStateBytes, counting four bytes for each string.
func stateFits(t edgewise.DataType, dims edgewise.Shape) bool {
	size := t.Size()
	if t == edgewise.Bytes {
		size = 4
	}
	n, ok := append(edgewise.Shape{max(size, 1)}, dims...).Elements()
	return !ok || n <= MaxStateBytes // what is no shape is a problem of its own
}

func (c *checker) initialState(what string, s edgewise.SequenceState, initial edgewise.InitialState) {
	if initial.Name == "" {
		c.problem("%s: name is empty", what)
	}
	if initial.DataType != s.DataType {
		c.problem("%s: data_type: want %s, as the state, got %s", what, configName(s.DataType), configName(initial.DataType))
	}
	if !s.Dims.Accepts(initial.Dims) {
		c.problem("%s: dims: want fixed sizes that fit %v, got %v", what, s.Dims, initial.Dims)
	} else if n, ok := initial.Dims.Elements(); !ok || n < 0 || !stateFits(s.DataType, initial.Dims) {
		c.problem("%s: takes more than %d bytes", what, MaxStateBytes)
	}
	if initial.ZeroData == (initial.DataFile != "") {
		c.problem("%s: want exactly one of zero_data and data_file", what)
	}
	if initial.DataFile == "" {
		return
	}
	if err := edgewise.CheckPath(initial.DataFile); err != nil {
		c.problem("%s: data_file: %v", what, err)
		return
	}
	c.path(what+": data_file", InitialStateFolder+"/"+initial.DataFile)
}

// WarmupFolder is the folder of a version that holds the data files of warm-up requests.
const WarmupFolder = "warmup"

// warmups checks that each warm-up is a request which the model would accept.
func (c *checker) warmups() {
	if n := len(c.m.ModelWarmup); n > MaxWarmups {
		c.problem("model_warmup: %d requests, at most %d are allowed", n, MaxWarmups)
	}
	seen := map[string]bool{}
	for i, w := range c.m.ModelWarmup {
		what := fmt.Sprintf("model_warmup[%d]", i)
		if w.Name == "" {
			c.problem("%s: name is empty", what)
		} else {
			what = "model_warmup " + shown(w.Name)
		}
		if seen[w.Name] {
			c.problem("%s is declared twice", what)
		}
		seen[w.Name] = true
		c.warmup(what, w)
	}
}

func (c *checker) warmup(what string, w edgewise.ModelWarmup) {
	if most := uint32(max(c.m.MaxBatchSize, 1)); w.BatchSize < 1 || w.BatchSize > most {
		c.problem("%s: batch_size: want 1 to %d, got %d", what, most, w.BatchSize)
	}
	if w.Count > MaxWarmupCount {
		c.problem("%s: count: want at most %d, got %d", what, MaxWarmupCount, w.Count)
	}
	for _, in := range c.m.Input {
		if _, ok := w.Inputs[in.Name]; !ok && !in.Optional {
			c.problem("%s: input %s is missing", what, shown(in.Name))
		}
	}
	for _, name := range sorted(w.Inputs) {
		c.warmupInput(fmt.Sprintf("%s: input %s", what, shown(name)), name, w)
	}
}

func (c *checker) warmupInput(what, name string, w edgewise.ModelWarmup) {
	in := w.Inputs[name]
	i := slices.IndexFunc(c.m.Input, func(d edgewise.ModelInput) bool { return d.Name == name })
	if i < 0 {
		c.problem("%s is not an input of the model", what)
		return
	}
	declared := c.m.Input[i]
	if in.DataType != declared.DataType {
		c.problem("%s: data_type: want %s, got %s", what, configName(declared.DataType), configName(in.DataType))
	}
	if !declared.Dims.Accepts(in.Dims) {
		c.problem("%s: dims: want fixed sizes that fit %v, got %v", what, declared.Dims, in.Dims)
	} else if !warmupFits(in, w.BatchSize) {
		c.problem("%s: takes more than %d bytes", what, MaxWarmupBytes)
	}
	c.warmupSource(what, in)
}

// warmupFits tells whether an input takes at most MaxWarmupBytes, counting four bytes for each string.
func warmupFits(in edgewise.WarmupInput, batch uint32) bool {
	size := in.DataType.Size()
	if in.DataType == edgewise.Bytes {
		size = 4
	}
	n, ok := append(edgewise.Shape{int64(batch), size}, in.Dims...).Elements()
	return ok && n <= MaxWarmupBytes
}

func (c *checker) warmupSource(what string, in edgewise.WarmupInput) {
	if sources := count(in.ZeroData, in.RandomData, in.InputDataFile != ""); sources != 1 {
		c.problem("%s: want exactly one of zero_data, random_data and input_data_file, got %d", what, sources)
	}
	if in.InputDataFile == "" {
		return
	}
	if err := edgewise.CheckPath(in.InputDataFile); err != nil {
		c.problem("%s: input_data_file: %v", what, err)
		return
	}
	c.path(what+": input_data_file", WarmupFolder+"/"+in.InputDataFile)
}

// shown quotes a name for a message.
func shown(name string) string { return fmt.Sprintf("%.64q", name) }
