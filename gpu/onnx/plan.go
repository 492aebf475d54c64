package onnx

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// bucketsParameter is the model parameter that lists the batch sizes that are computed on a GPU, such as "1,4,16"; a batch
// between two of them is filled up with zeros. "off": no batch is, and the copies of one batch do not overlap the run of
// another.
const bucketsParameter = "gpu_batch_buckets"

// Bounds of what a model asks for.
const (
	MaxBuckets   = 32
	MaxSlots     = 8
	defaultSlots = 3       // one is copied in, one computed, one copied out
	maxRing      = 1 << 30 // bytes of the slots of an instance; with more the plain way is taken
)

// shapes are those of a version's runs on a device, where they are known.
type shapes struct {
	Inputs  []plan
	Outputs []plan
	Buckets []int // rows, ascending; {1} for a model without a batch dimension
	Batched bool
}

// most is the rows of the largest bucket.
func (s *shapes) most() int { return s.Buckets[len(s.Buckets)-1] }

// bucket returns the index of the smallest bucket for so many rows, -1 when there is none.
func (s *shapes) bucket(rows int) int {
	return slices.IndexFunc(s.Buckets, func(b int) bool { return rows <= b })
}

// buckets returns the batch sizes that are computed, ascending, the last one being max_batch_size: powers of two, and
// those that the model prefers. nil: the plain way is to be taken.
func buckets(m *edgewise.Model) ([]int, error) {
	text := m.Parameters[bucketsParameter].StringValue
	if text == "off" {
		return nil, nil
	}
	most := max(int(m.MaxBatchSize), 1)
	var list []int
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 || n > most {
			return nil, edgewise.Errorf("onnx.Load", edgewise.Invalid,
				"model %q: parameter %q: %q is no batch size from 1 to max_batch_size %d", m.Name, bucketsParameter, field, most)
		}
		list = append(list, n)
	}
	if len(list) == 0 {
		for n := 1; n < most; n *= 2 {
			list = append(list, n)
		}
		if m.DynamicBatching != nil {
			for _, n := range m.DynamicBatching.PreferredBatchSize {
				list = append(list, min(int(n), most))
			}
		}
	}
	list = append(list, most)
	slices.Sort(list)
	if list = slices.Compact(list); len(list) > MaxBuckets {
		return nil, edgewise.Errorf("onnx.Load", edgewise.Invalid, "model %q: %d batch sizes in %q, at most %d are allowed",
			m.Name, len(list), bucketsParameter, MaxBuckets)
	}
	return list, nil
}

// plans returns the tensors of a model whose sizes are all known but for the batch; ok is false when one is not, when
// they take more than a ring may, and when an output is an input of the graph.
func plans(m *edgewise.Model, file *edgewise.Inspection, rows, slots int) (inputs, outputs []plan, ok bool) {
	batched := m.MaxBatchSize > 0
	if slices.ContainsFunc(file.Outputs, func(out edgewise.TensorInfo) bool {
		return slices.ContainsFunc(file.Inputs, func(in edgewise.TensorInfo) bool { return in.Name == out.Name })
	}) {
		return nil, nil, false // the runtime does not write such an output where it is bound
	}
	var bytes int64
	for _, list := range []struct {
		from []edgewise.TensorInfo
		to   *[]plan
	}{{file.Inputs, &inputs}, {file.Outputs, &outputs}} {
		for _, t := range list.from {
			p, ok := planOf(t, batched)
			if !ok || p.size > maxRing/int64(rows*slots) {
				return nil, nil, false
			}
			if bytes += p.size * int64(rows*slots); bytes > maxRing {
				return nil, nil, false
			}
			*list.to = append(*list.to, p)
		}
	}
	return inputs, outputs, len(inputs) > 0 && len(outputs) > 0
}

// planOf describes one tensor. Optional inputs, strings and tensors without elements have no plan.
func planOf(t edgewise.TensorInfo, batched bool) (plan, bool) {
	row := t.Shape
	if batched {
		if len(row) == 0 || row[0] != -1 {
			return plan{}, false
		}
		row = row[1:]
	}
	n, ok := row.Elements()
	size := t.Type.Size()
	if !ok || t.Shape == nil || t.Optional || size == 0 || n == 0 || n > math.MaxInt64/size {
		return plan{}, false
	}
	return plan{name: t.Name, kind: t.Type, row: row, size: n * size}, true
}
