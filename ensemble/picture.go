package ensemble

import "slices"

// reading is the one step that reads a tensor, and the name of its model's input; step is nobody when several do, or
// when the tensor has to be there for something else.
type reading struct {
	step  int
	input string
}

// readers finds, for each tensor, who could take it as pictures: a tensor that one step reads, once and in the shape
// that it has. An output of the ensemble has to be there, and so has what a condition looks at, what a fan-out cuts or
// joins, and what a default hands on.
func (g *graph) readers() []reading {
	list := make([]reading, len(g.tensors))
	for t := range list {
		list[t].step = nobody
		if producer := g.tensors[t].producer; producer >= 0 && g.steps[producer].fan == nil &&
			len(g.tensors[t].consumers) == 1 && !g.tensors[t].output {
			list[t] = g.steps[g.tensors[t].consumers[0]].reading(t, g.tensors[t].consumers[0])
		}
	}
	return list
}

// reading tells how a step, whose number is given, reads a tensor.
func (s *step) reading(t, number int) reading {
	r := reading{step: nobody}
	if s.fan != nil || s.condition != nil && s.condition.tensor == t {
		return r
	}
	for _, d := range s.defaults {
		if d.tensor == t {
			return r
		}
	}
	for _, in := range s.inputs {
		if in.tensor != t {
			continue
		}
		if r.step != nobody || in.adaption.kind != asItIs {
			return reading{step: nobody}
		}
		r = reading{number, in.name}
	}
	return r
}

// pictures are the outputs of step s, among those wanted, that the model which reads them accepts as pictures.
func (r *run) pictures(s *step, want []string) (names []string) {
	if r.e.config.Pictures == nil {
		return nil
	}
	for _, o := range s.outputs {
		reader := r.e.readers[o.tensor]
		if reader.step != nobody && slices.Contains(want, o.name) &&
			r.e.config.Pictures(r.e.graph.steps[reader.step].id, reader.input) {
			names = append(names, o.name)
		}
	}
	return names
}
