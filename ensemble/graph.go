package ensemble

import (
	"fmt"
	"maps"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// Bounds of an ensemble.
const (
	MaxSteps        = 256     // steps of an ensemble
	MaxTensors      = 4096    // tensors of an ensemble, of all steps together
	MaxTensorName   = 512     // bytes of a tensor's name
	MaxNesting      = 8       // ensembles inside each other, the outermost included
	MaxDefaultBytes = 1 << 20 // bytes of one default output
	MaxProblems     = 100     // problems told apart; the rest is counted
)

// graph is an ensemble with its names resolved: tensors and steps are numbers.
type graph struct {
	model   *edgewise.Model
	tensors []tensor
	steps   []step
	outputs []int    // the tensors of the model's outputs, in declared order
	needs   [][]bool // for each of outputs, which steps it needs
	streams []int    // the decoupled steps, each behind those that it needs
	behind  [][]bool // for each decoupled step, the steps that need it; nil for others
	index   map[string]int
}

// tensor is a tensor of the ensemble.
type tensor struct {
	name      string
	producer  int                 // the step that makes it, input or noStep
	consumers []int               // the steps that wait for it, each once, ascending
	output    bool                // the ensemble answers with it
	batches   bool                // its first dimension is that of a batch
	adaption  adaption            // on its way into the answer
	reshape   *edgewise.Reshaping // between the client's shape and the one in here, nil: they are the same
}

// Producers that are no step.
const (
	input  = -1
	noStep = -2
)

// step is a step with its names resolved.
type step struct {
	id        edgewise.ModelID // what it runs
	label     string           // for messages: step 0 (model 'cat')
	model     *edgewise.Model  // nil: not known
	inputs    []mapping        // by the model's name of the input
	outputs   []mapping        // in the order in which the model declares them
	waits     []int            // tensors it needs to begin: inputs, condition, defaults; each once
	condition *condition       // nil: it always runs
	fan       *fan             // nil: its model is asked once
	defaults  []fallback       // for each of outputs, when there is a condition that skips
}

// mapping connects a name of a model with a tensor.
type mapping struct {
	name     string
	tensor   int
	optional bool     // the model can do without
	cut      bool     // the fan-out cuts it
	adaption adaption // of an input
}

// newGraph resolves the names of m. parts[i] is the model that step i runs, nil when it is not known. The graph of a
// model that Validate refuses must not be run.
func newGraph(m *edgewise.Model, parts []*edgewise.Model) *graph {
	g := &graph{model: m, index: map[string]int{}}
	for _, in := range m.Input {
		t := g.tensor(in.Name)
		g.tensors[t].producer, g.tensors[t].reshape = input, m.Reshaping(in.Dims, in.Reshape)
	}
	for i := range m.EnsembleScheduling.Step {
		g.addStep(&m.EnsembleScheduling.Step[i], parts[i])
	}
	for _, out := range m.Output {
		t := g.tensor(out.Name)
		g.tensors[t].output, g.tensors[t].reshape = true, m.Reshaping(out.Dims, out.Reshape).Inverse()
		g.outputs = append(g.outputs, t)
	}
	g.adapt()
	return g
}

// tensor returns the number of a name.
func (g *graph) tensor(name string) int {
	i, known := g.index[name]
	if !known {
		i = len(g.tensors)
		g.index[name] = i
		g.tensors = append(g.tensors, tensor{name: name, producer: noStep})
	}
	return i
}

func (g *graph) addStep(declared *edgewise.EnsembleStep, part *edgewise.Model) {
	number := len(g.steps)
	s := step{
		id:    edgewise.ModelID{Name: declared.ModelName},
		label: fmt.Sprintf("step %d (model '%s')", number, declared.ModelName), model: part,
	}
	if declared.Pinned != nil {
		s.id.Version = declared.Pinned.Version
	}
	for _, name := range slices.Sorted(maps.Keys(declared.InputMap)) {
		s.inputs = append(s.inputs, mapping{name: name, tensor: g.tensor(declared.InputMap[name]), optional: optionalInput(part, name)})
	}
	for _, name := range outputOrder(declared.OutputMap, part) {
		t := g.tensor(declared.OutputMap[name])
		s.outputs = append(s.outputs, mapping{name: name, tensor: t})
		if g.tensors[t].producer == noStep {
			g.tensors[t].producer = number
		}
	}
	g.addFan(&s, declared)
	g.addCondition(&s, declared)
	for _, in := range s.inputs {
		s.waits = append(s.waits, in.tensor)
	}
	slices.Sort(s.waits)
	s.waits = slices.Compact(s.waits)
	for _, t := range s.waits {
		g.tensors[t].consumers = append(g.tensors[t].consumers, number)
	}
	g.steps = append(g.steps, s)
}

// outputOrder returns the mapped outputs in the order in which the model declares them, so that a step asks for them as
// other clients of the model do; and behind them those that the model does not have.
func outputOrder(outputs map[string]string, part *edgewise.Model) []string {
	var names []string
	if part != nil {
		for _, out := range part.Output {
			if _, mapped := outputs[out.Name]; mapped {
				names = append(names, out.Name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// optionalInput tells whether a request to a model, nil where it is not known, may come without an input.
func optionalInput(m *edgewise.Model, name string) bool {
	return m != nil && slices.ContainsFunc(m.Input, func(in edgewise.ModelInput) bool { return in.Name == name && in.Optional })
}

func inputOf(m *edgewise.Model, name string) *edgewise.ModelInput {
	for i := range m.Input {
		if m.Input[i].Name == name {
			return &m.Input[i]
		}
	}
	return nil
}

func outputOf(m *edgewise.Model, name string) *edgewise.ModelOutput {
	for i := range m.Output {
		if m.Output[i].Name == name {
			return &m.Output[i]
		}
	}
	return nil
}

// order returns the steps so that each stands behind those it needs, and the steps that are in a circle or behind one,
// ascending.
func (g *graph) order() (sorted, circle []int) {
	missing := make([]int, len(g.steps))
	for i := range g.steps {
		for _, t := range g.steps[i].waits {
			if g.tensors[t].producer >= 0 {
				missing[i]++
			}
		}
		if missing[i] == 0 {
			sorted = append(sorted, i)
		}
	}
	for at := 0; at < len(sorted); at++ {
		for _, out := range g.steps[sorted[at]].outputs {
			t := &g.tensors[out.tensor]
			if t.producer != sorted[at] {
				continue
			}
			for _, c := range t.consumers {
				if missing[c]--; missing[c] == 0 {
					sorted = append(sorted, c)
				}
			}
		}
	}
	for i := range missing {
		if missing[i] > 0 {
			circle = append(circle, i)
		}
	}
	return sorted, circle
}

// decoupled tells whether the model of a step has any number of responses.
func (s *step) decoupled() bool { return s.model != nil && s.model.Decoupled() }

// follow finds the decoupled steps, and which steps are behind them.
func (g *graph) follow() {
	g.behind = make([][]bool, len(g.steps))
	sorted, _ := g.order()
	for _, s := range sorted {
		if g.steps[s].decoupled() {
			g.streams = append(g.streams, s)
			g.behind[s] = make([]bool, len(g.steps))
			g.reach(g.behind[s], s)
		}
	}
}

// reach marks the steps that need step s.
func (g *graph) reach(marked []bool, s int) {
	for _, out := range g.steps[s].outputs {
		if t := &g.tensors[out.tensor]; t.producer == s {
			for _, c := range t.consumers {
				if !marked[c] {
					marked[c] = true
					g.reach(marked, c)
				}
			}
		}
	}
}

// together tells whether a step runs as often as another one that needs it.
func (g *graph) together(producer, consumer int) bool {
	return !slices.ContainsFunc(g.streams, func(s int) bool {
		return s == producer || g.behind[s][consumer] && !g.behind[s][producer]
	})
}

// prune fills in needs: for each output, the steps without which it cannot be made.
func (g *graph) prune() {
	g.needs = make([][]bool, len(g.outputs))
	for i, t := range g.outputs {
		needed := make([]bool, len(g.steps))
		g.mark(needed, t)
		g.needs[i] = needed
	}
}

func (g *graph) mark(needed []bool, t int) {
	s := g.tensors[t].producer
	if s < 0 || needed[s] {
		return
	}
	needed[s] = true
	for _, wanted := range g.steps[s].waits {
		g.mark(needed, wanted)
	}
}
