package sched

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// plainModel returns the model of a version with sequences as its runs see it: the control and state tensors are inputs
// and outputs like others, and requests of different sequences run together as in a dynamic batcher (strategy oldest), or
// each by itself (direct, where batches are made of slots before they are queued).
func plainModel(m *edgewise.Model) *edgewise.Model {
	plain := *m
	b := m.SequenceBatching
	plain.SequenceBatching = nil
	plain.Input, plain.Output = slices.Clone(m.Input), slices.Clone(m.Output)
	for _, c := range controlsOf(b) {
		plain.Input = append(plain.Input, edgewise.ModelInput{Name: c.name, DataType: c.dataType, Dims: edgewise.Shape{1}})
	}
	for _, s := range b.State {
		plain.Input = append(plain.Input, edgewise.ModelInput{Name: s.InputName, DataType: s.DataType, Dims: s.Dims})
		if !slices.ContainsFunc(m.Output, func(out edgewise.ModelOutput) bool { return out.Name == s.OutputName }) {
			plain.Output = append(plain.Output, edgewise.ModelOutput{Name: s.OutputName, DataType: s.DataType, Dims: s.Dims})
		}
	}
	if b.Oldest != nil {
		plain.DynamicBatching = &edgewise.DynamicBatching{
			PreferredBatchSize: b.Oldest.PreferredBatchSize, MaxQueueDelay: b.Oldest.MaxQueueDelay, PreserveOrdering: b.Oldest.PreserveOrdering,
		}
	}
	return &plain
}

// candidates is how many sequences one instance has slots for.
func candidates(m *edgewise.Model) int {
	if b := m.SequenceBatching; b.Oldest != nil && b.Oldest.MaxCandidateSequences > 0 {
		return int(b.Oldest.MaxCandidateSequences)
	}
	return int(max(m.MaxBatchSize, 1))
}

// instancesOf is how many instances take requests, at least 1.
func instancesOf(m *edgewise.Model) int {
	n := 0
	for _, g := range m.InstanceGroup {
		if !g.Passive {
			n += int(g.Count)
		}
	}
	return max(n, 1)
}
