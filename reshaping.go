package edgewise

// Reshaping maps one declared shape of a tensor to another one with the same number of elements. Dimensions of variable
// size (-1) keep their sizes, in order. A nil Reshaping changes nothing.
type Reshaping struct {
	batched  bool // dimension 0 is the batch and is kept
	from, to Shape
}

// Reshaping returns the mapping from the client's shape of a tensor of m to the model's. dims and r are its declared
// dims and reshape. The result is nil when r is nil.
func (m *Model) Reshaping(dims Shape, r *Reshape) *Reshaping {
	if r == nil {
		return nil
	}
	return &Reshaping{batched: m.MaxBatchSize > 0, from: dims, to: r.Shape}
}

// Inverse returns the opposite mapping, from the model's shape to the client's, as outputs need it.
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
