package ensemble

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Validate reports everything that is wrong with an ensemble, one problem a line, each as "in ensemble 'E', ...". m is
// complete, as modelconfig.Complete returns it; parts[i] is the model that step i runs, nil when it is not known, and
// then nothing is compared with it. The error is of kind Invalid.
func Validate(m *edgewise.Model, parts []*edgewise.Model) error {
	c := &checker{m: m}
	if c.declaration() {
		c.connected(parts)
	}
	return c.err()
}

// checker collects problems.
type checker struct {
	m        *edgewise.Model
	g        *graph
	nameless bool         // a tensor has no name, or one beyond the bounds: no graph can be made of the steps
	unnamed  map[int]bool // steps that name no model, or no version, that there could be
	// A step has an empty input_map, or output_map: tensors that no step uses, or makes, are a consequence of that.
	inputless, outputless bool

	problems []string
	more     int
	kind     edgewise.Kind // of all problems; Invalid when they differ
}

func (c *checker) problem(format string, args ...any) {
	c.add(edgewise.Invalid, fmt.Sprintf(format, args...))
}

// add notes a problem of a kind.
func (c *checker) add(kind edgewise.Kind, text string) {
	if len(c.problems) == 0 {
		c.kind = kind
	} else if c.kind != kind {
		c.kind = edgewise.Invalid
	}
	if len(c.problems) == MaxProblems {
		c.more++
		return
	}
	c.problems = append(c.problems, fmt.Sprintf("in ensemble '%s', %s", c.m.Name, text))
}

func (c *checker) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	text := strings.Join(c.problems, "\n")
	if c.more > 0 {
		text += fmt.Sprintf("\n... and %d more", c.more)
	}
	err := edgewise.Errorf("ensemble.Validate", c.kind, "%s", text)
	err.Model = edgewise.ModelID{Name: c.m.Name}
	return err
}

// declaration checks what the configuration says by itself, and tells whether a graph can be made of its steps.
func (c *checker) declaration() bool {
	c.whole()
	if c.m.EnsembleScheduling == nil || len(c.m.EnsembleScheduling.Step) == 0 || len(c.m.EnsembleScheduling.Step) > MaxSteps {
		return false
	}
	c.unnamed = map[int]bool{}
	for i := range c.m.EnsembleScheduling.Step {
		c.declared(i, &c.m.EnsembleScheduling.Step[i])
	}
	return !c.nameless
}

// connected checks the graph that the steps make.
func (c *checker) connected(parts []*edgewise.Model) {
	c.g = newGraph(c.m, parts)
	c.connections()
	c.streams(parts)
	for i := range c.g.steps {
		c.mapped(i)
		c.types(i)
		c.batching(i)
		c.fanOut(i)
		c.condition(i)
	}
}

// whole checks what the configuration says beside its steps.
func (c *checker) whole() {
	m := c.m
	if m.EnsembleScheduling == nil {
		c.problem("ensemble_scheduling is missing: platform \"ensemble\" needs its steps")
	} else if n := len(m.EnsembleScheduling.Step); n == 0 || n > MaxSteps {
		c.problem("%d steps: want 1 to %d", n, MaxSteps)
	}
	if m.Platform != Platform {
		c.problem("platform is %q: ensemble_scheduling goes with %q", m.Platform, Platform)
	}
	for _, unwanted := range []struct {
		field string
		there bool
	}{
		{"instance_group", m.EnsembleScheduling != nil && len(m.InstanceGroup) > 0},
		{"optimization", m.EnsembleScheduling != nil && m.Optimization != nil},
		{"model_warmup", len(m.ModelWarmup) > 0},
		{"dynamic_batching", m.DynamicBatching != nil},
		{"sequence_batching", m.SequenceBatching != nil},
		{"default_model_filename", m.DefaultModelFilename != ""},
	} {
		if unwanted.there {
			c.problem("%s is not allowed: it belongs to the models of the steps", unwanted.field)
		}
	}
}

// declared checks what a step says by itself.
func (c *checker) declared(i int, s *edgewise.EnsembleStep) {
	label := fmt.Sprintf("step %d (model '%.*s')", i, edgewise.MaxNameBytes, s.ModelName)
	if err := edgewise.CheckName(s.ModelName); err != nil {
		c.problem("step %d: model_name: %v", i, err)
		c.unnamed[i] = true
	}
	if s.ModelVersion < -1 || s.ModelVersion == 0 {
		c.problem("%s: model_version: want a version, or -1 for the live one, got %d", label, s.ModelVersion)
		c.unnamed[i] = true
	}
	if s.ModelNamespace != "" {
		c.problem("%s: model_namespace is not served: models have one name on this box", label)
	}
	c.names(label+": input_map", s.InputMap, &c.inputless)
	c.names(label+": output_map", s.OutputMap, &c.outputless)
	if d := s.Condition; d != nil {
		c.short(label+": condition: tensor", d.Tensor)
		for _, name := range slices.Sorted(maps.Keys(d.DefaultOutput)) {
			c.short(label+": condition: default_output", name, d.DefaultOutput[name].Tensor)
		}
	}
	if d := s.FanOut; d != nil {
		c.short(label+": fan_out: input", d.Input...)
	}
}

// names checks the entries of a map, and notes in empty when there are none.
func (c *checker) names(what string, entries map[string]string, empty *bool) {
	if n := len(entries); n == 0 || n > MaxTensors {
		c.problem("%s has %d entries: want 1 to %d", what, n, MaxTensors)
		c.nameless, *empty = c.nameless || n > MaxTensors, *empty || n == 0
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if name == "" || entries[name] == "" {
			c.problem("%s leads from '%.64s' to '%.64s': both need a name", what, name, entries[name])
			c.nameless = true
		}
		c.short(what, name, entries[name])
	}
}

// short checks that names of tensors are within their bound.
func (c *checker) short(what string, names ...string) {
	for _, name := range names {
		if len(name) > MaxTensorName {
			c.problem("%s: the name '%.64s...' has %d bytes, at most %d are allowed", what, name, len(name), MaxTensorName)
			c.nameless = true
		}
	}
}

// connections checks that every tensor is made once and used, and that no step needs itself.
func (c *checker) connections() {
	g := c.g
	if len(g.tensors) > MaxTensors {
		c.problem("%d tensors: at most %d are allowed", len(g.tensors), MaxTensors)
	}
	for i := range g.steps {
		for _, out := range g.steps[i].outputs {
			t := &g.tensors[out.tensor]
			switch {
			case t.producer == input:
				c.problem("%s: output '%s' makes tensor '%s', which is an input of the ensemble", g.steps[i].label, out.name, t.name)
			case t.producer != i:
				c.problem("%s: output '%s' makes tensor '%s', which %s makes already", g.steps[i].label, out.name, t.name, g.steps[t.producer].label)
			}
		}
	}
	c.duplicates()
	for i := range g.tensors {
		t := &g.tensors[i]
		switch {
		case t.producer == noStep && c.outputless, t.producer != noStep && len(t.consumers) == 0 && !t.output && c.inputless:
		case t.producer == noStep && t.output && len(t.consumers) == 0:
			c.problem("no step makes output '%s'", t.name)
		case t.producer == noStep:
			c.problem("no step makes tensor '%s', which %s needs, and it is no input of the ensemble", t.name, g.steps[t.consumers[0]].label)
		case t.producer == input && t.output:
			c.problem("tensor '%s' is an input and an output of the ensemble: no step makes it", t.name)
		case t.producer == input && len(t.consumers) == 0:
			c.problem("input '%s' is not used by any step", t.name)
		case t.producer >= 0 && !t.output && len(t.consumers) == 0:
			c.problem("tensor '%s', which %s makes, is not used: leave it out of output_map", t.name, g.steps[t.producer].label)
		}
	}
	if _, circle := g.order(); len(circle) > 0 {
		c.problem("steps wait for each other in a circle: %s", c.circle(circle))
	}
}

// streams checks the decoupled steps, and what the ensemble says of itself.
func (c *checker) streams(parts []*edgewise.Model) {
	c.g.follow()
	for i, s := range c.g.streams {
		for _, other := range c.g.streams[i+1:] {
			if !c.g.behind[s][other] {
				c.problem("%s receives inputs originated from different decoupled models: %s and %s: one of them must need "+
					"the other", c.meeting(s, other), c.g.steps[s].label, c.g.steps[other].label)
			}
		}
	}
	if c.decoupled() && c.m.ResponseCache != nil && c.m.ResponseCache.Enable {
		c.problem("response_cache.enable: %s is decoupled: responses of a decoupled model are not cached",
			c.g.steps[c.g.streams[0]].label)
	}
	if c.m.Decoupled() && !c.decoupled() && !slices.Contains(parts, nil) {
		c.problem("model_transaction_policy.decoupled is true, but no step runs a decoupled model: an ensemble is " +
			"decoupled when one of its steps is")
	}
}

// decoupled tells whether a request to the ensemble has any number of responses, as far as its steps are known.
func (c *checker) decoupled() bool { return len(c.g.streams) > 0 }

// meeting is the first that needs two steps: another step, or the ensemble's answer.
func (c *checker) meeting(a, b int) string {
	sorted, _ := c.g.order()
	for _, s := range sorted {
		if c.g.behind[a][s] && c.g.behind[b][s] {
			return c.g.steps[s].label
		}
	}
	return "the answer"
}

// duplicates finds a step that makes a tensor with two of its outputs.
func (c *checker) duplicates() {
	for i := range c.g.steps {
		seen := map[int]string{}
		for _, out := range c.g.steps[i].outputs {
			if first, there := seen[out.tensor]; there {
				c.problem("%s: outputs '%s' and '%s' both make tensor '%s'", c.g.steps[i].label, first, out.name, c.g.tensors[out.tensor].name)
			}
			seen[out.tensor] = out.name
		}
	}
}

// circle follows the steps that wait until one comes again.
func (c *checker) circle(steps []int) string {
	waits := map[int]bool{}
	for _, s := range steps {
		waits[s] = true
	}
	var path []int
	seen := map[int]int{}
	for at := steps[0]; ; {
		if begin, again := seen[at]; again {
			path = append(path[begin:], at)
			break
		}
		seen[at] = len(path)
		path = append(path, at)
		for _, t := range c.g.steps[at].waits {
			if p := c.g.tensors[t].producer; waits[p] {
				at = p
				break
			}
		}
	}
	labels := make([]string, len(path))
	for i, s := range path {
		labels[len(path)-1-i] = c.g.steps[s].label
	}
	return strings.Join(labels, " -> ")
}

// mapped checks the maps of a step against the model it runs.
func (c *checker) mapped(i int) {
	s := &c.g.steps[i]
	if s.model == nil {
		return
	}
	there := map[string]bool{}
	for _, in := range s.inputs {
		there[in.name] = true
		declared := inputOf(s.model, in.name)
		if declared == nil {
			c.problem("%s: input_map names input '%s', which the model does not have", s.label, in.name)
			continue
		}
		t := &c.g.tensors[in.tensor]
		if optionalInput(c.m, t.name) && !declared.Optional {
			c.problem("%s: input '%s' is not optional, but tensor '%s' is an optional input of the ensemble", s.label, in.name, t.name)
		}
	}
	for _, in := range s.model.Input {
		if len(s.inputs) > 0 && !there[in.Name] && !in.Optional {
			c.problem("%s: input '%s' of the model is missing in input_map", s.label, in.Name)
		}
	}
	for _, out := range s.outputs {
		if outputOf(s.model, out.name) == nil {
			c.problem("%s: output_map names output '%s', which the model does not have", s.label, out.name)
		}
	}
	if s.decoupled() && s.fan != nil {
		c.problem("%s: fan_out: the model is decoupled: the responses for the rows cannot be joined", s.label)
	}
}
