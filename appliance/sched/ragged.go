package sched

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// The kinds of batch input and batch output, as configurations name them.
const (
	batchCount        = "BATCH_ELEMENT_COUNT"
	batchSums         = "BATCH_ACCUMULATED_ELEMENT_COUNT"
	batchSumsZero     = "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO"
	batchLargest      = "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE"
	batchShapes       = "BATCH_ITEM_SHAPE"
	batchShapesFlat   = "BATCH_ITEM_SHAPE_FLATTEN"
	batchScatterInput = "BATCH_SCATTER_WITH_INPUT_SHAPE"
)

// ragged is what a model wants to know of the requests of a batch that runs without padding: inputs of different shapes
// are put behind each other in one dimension, inputs made from the batch say where each begins, and outputs are cut the
// way an input was put together. A nil ragged changes nothing.
type ragged struct {
	flat    map[string]bool // inputs of one dimension
	made    []edgewise.BatchInput
	scatter map[string]string // outputs that are cut, and the input by which
}

// newRagged reads a model's allow_ragged_batch, batch_input and batch_output, which have been checked; nil when it has
// none of them.
func newRagged(m *edgewise.Model) *ragged {
	r := &ragged{flat: map[string]bool{}, made: m.BatchInput, scatter: map[string]string{}}
	for _, in := range m.Input {
		if in.AllowRaggedBatch {
			r.flat[in.Name] = true
		}
	}
	for _, out := range m.BatchOutput {
		for _, name := range out.TargetName {
			r.scatter[name] = out.SourceInput[0]
		}
	}
	if len(r.flat)+len(r.made)+len(r.scatter) == 0 {
		return nil
	}
	return r
}

// joins tells whether an input of two requests can be in one batch whatever its shapes are.
func (r *ragged) joins(input string) bool { return r != nil && r.flat[input] }

// inputs gives gathered inputs the shapes that the model wants, and adds those that are made from the batch. Error:
// TooLarge, when a count does not fit into its type.
func (r *ragged) inputs(gathered []edgewise.Tensor, jobs []*job) ([]edgewise.Tensor, error) {
	if r == nil {
		return gathered, nil
	}
	all := make([]edgewise.Tensor, len(gathered), len(gathered)+len(r.made))
	copy(all, gathered)
	for i := range all {
		if !r.flat[all[i].Name] {
			continue
		}
		total := int64(0)
		for _, j := range jobs {
			total += elementsOf(&j.inputs[i])
		}
		all[i].Shape = edgewise.Shape{total}
	}
	for i := range r.made {
		b := &r.made[i]
		data, shape, err := fromBatch(b, jobs)
		if err != nil {
			return nil, err
		}
		for _, name := range b.TargetName {
			all = append(all, edgewise.Tensor{Name: name, Type: b.DataType, Shape: shape, Data: data})
		}
	}
	return all, nil
}

// fromBatch makes one batch input.
func fromBatch(b *edgewise.BatchInput, jobs []*job) (data []byte, shape edgewise.Shape, err error) {
	w := numbers{kind: b.DataType}
	var sum, largest int64
	if b.Kind == batchSumsZero {
		w.append(0)
	}
	rank := 0
	for _, j := range jobs {
		in := inputNamed(j, b.SourceInput[0])
		n := elementsOf(in)
		sum, largest, rank = sum+n, max(largest, n), len(in.Shape)-1
		switch b.Kind {
		case batchCount:
			w.append(n)
		case batchSums, batchSumsZero:
			w.append(sum)
		case batchShapes, batchShapesFlat:
			for range j.batch {
				for _, d := range in.Shape[1:] {
					w.append(d)
				}
			}
		}
	}
	if w.over {
		return nil, nil, edgewise.Errorf(
			"sched.gather", edgewise.TooLarge,
			"a batch input made of '%s' does not fit into %v: its elements are too many", b.SourceInput[0], b.DataType,
		)
	}
	switch b.Kind {
	case batchLargest:
		return AlignedBytes(int(4 * largest))[:4*largest], edgewise.Shape{largest}, nil
	case batchShapes:
		return w.data, edgewise.Shape{int64(elements(jobs)), int64(rank)}, nil
	}
	return w.data, edgewise.Shape{int64(len(w.data) / 4)}, nil
}

// numbers is a list of numbers of the type INT32 or FP32.
type numbers struct {
	kind edgewise.DataType
	data []byte
	over bool // one did not fit
}

func (w *numbers) append(n int64) {
	bits := uint32(n)
	switch {
	case w.kind == edgewise.FP32:
		bits = math.Float32bits(float32(n))
	case n > math.MaxInt32:
		w.over = true
	}
	w.data = binary.LittleEndian.AppendUint32(w.data, bits)
}

func elementsOf(t *edgewise.Tensor) int64 {
	n, _ := t.Shape.Elements()
	return n
}

func inputNamed(j *job, name string) *edgewise.Tensor {
	return &j.inputs[slices.IndexFunc(j.inputs, func(t edgewise.Tensor) bool { return t.Name == name })]
}

// distribute gives each job its part of a batch's outputs: those that are scattered by what its input was, the others
// by rows. It sets the jobs' outputs only when all of them can be had. Error: Internal.
func (r *ragged) distribute(outputs []edgewise.Tensor, jobs []*job, total int) error {
	var rows []edgewise.Tensor
	for i := range outputs {
		if r.scatter[outputs[i].Name] == "" {
			rows = append(rows, outputs[i])
		}
	}
	scattered := make([][]edgewise.Tensor, len(jobs))
	for i := range outputs {
		if source := r.scatter[outputs[i].Name]; source != "" {
			if err := scatter(&outputs[i], source, jobs, scattered); err != nil {
				return err
			}
		}
	}
	if len(jobs) == 1 {
		jobs[0].outputs = rows
	} else if err := split(rows, jobs, total); err != nil {
		return err
	}
	for k, j := range jobs {
		j.outputs = inOrder(outputs, j.outputs, scattered[k])
	}
	return nil
}

// scatter appends to the parts of each job its part of one output: as many elements as its source input has, in the
// same shape.
func scatter(whole *edgewise.Tensor, source string, jobs []*job, parts [][]edgewise.Tensor) error {
	data, size := whole.Data, whole.Type.Size()
	for k, j := range jobs {
		shape := inputNamed(j, source).Shape
		n, _ := shape.Elements()
		bytes := n * size
		if whole.Type == edgewise.Bytes {
			bytes = framedSize(data, n)
		}
		if bytes < 0 || bytes > int64(len(data)) {
			return wrongScatter(whole, source, jobs)
		}
		parts[k] = append(
			parts[k],
			edgewise.Tensor{Name: whole.Name, Type: whole.Type, Shape: slices.Clone(shape), Data: data[:bytes:bytes]},
		)
		data = data[bytes:]
	}
	if len(data) > 0 {
		return wrongScatter(whole, source, jobs)
	}
	return nil
}

func wrongScatter(whole *edgewise.Tensor, source string, jobs []*job) error {
	var n int64
	for _, j := range jobs {
		n += elementsOf(inputNamed(j, source))
	}
	return edgewise.Errorf(
		"sched.scatter", edgewise.Internal,
		"output %q of shape %v is to be scattered as input %q, which has %d elements in the batch", whole.Name,
		whole.Shape, source, n,
	)
}

// inOrder merges two lists of outputs into the order of a third one.
func inOrder(order, a, b []edgewise.Tensor) []edgewise.Tensor {
	merged := make([]edgewise.Tensor, 0, len(order))
	for i := range order {
		if len(a) > 0 && a[0].Name == order[i].Name {
			merged, a = append(merged, a[0]), a[1:]
			continue
		}
		merged, b = append(merged, b[0]), b[1:]
	}
	return merged
}
