package edgewise

// Reshaping leads from one declared shape of a tensor to another one with as many elements. Sizes that stand for -1 are
// carried over in order. A nil Reshaping changes nothing.
type Reshaping struct {
	batched  bool // dimension 0 is the batch and is kept
	from, to Shape
}

// NewReshaping returns the way from the client's shape of a tensor of m to the one behind it: dims and reshape are those
// of its declaration. It is nil without a reshape.
func NewReshaping(m *Model, dims Shape, r *Reshape) *Reshaping {
	if r == nil {
		return nil
	}
	return &Reshaping{batched: m.MaxBatchSize > 0, from: dims, to: r.Shape}
}

// Inverse leads back: outputs go to the client's shape.
func (r *Reshaping) Inverse() *Reshaping {
	if r == nil {
		return nil
	}
	return &Reshaping{batched: r.batched, from: r.to, to: r.from}
}

// Scalar tells whether the other side has no dimensions but the batch.
func (r *Reshaping) Scalar() bool { return r != nil && len(r.to) == 0 }

// Apply returns the shape on the other side. A shape that does not fit is returned as it is: the check that follows
// names it.
func (r *Reshaping) Apply(shape Shape) Shape {
	if r == nil {
		return shape
	}
	var out Shape
	rest := shape
	if r.batched && len(shape) > 0 {
		out, rest = append(out, shape[0]), shape[1:]
	}
	if !r.from.Accepts(rest) {
		return shape
	}
	var variable []int64
	for i, d := range r.from {
		if d < 0 {
			variable = append(variable, rest[i])
		}
	}
	for _, d := range r.to {
		if d < 0 {
			d, variable = variable[0], variable[1:]
		}
		out = append(out, d)
	}
	return out
}
