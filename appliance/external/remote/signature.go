package remote

import (
	"context"
	"fmt"
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// view is what a server says of a model.
type view struct {
	id              edgewise.ModelID
	address         Address
	streams         bool
	inputs, outputs []edgewise.Spec // with the dimension of the batch
	settings        *settings       // nil: the server does not tell
}

// maxTensors bounds the inputs and the outputs of a model.
const maxTensors = 1024

// view asks for a model's signature. Errors: those of the server.
func (s *Server) view(ctx context.Context, id edgewise.ModelID) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	said, err := s.ModelMetadata(ctx, id)
	if err != nil {
		return nil, s.reason(err)
	}
	v := &view{id: id, address: s.Address, streams: s.streams()}
	if v.inputs, err = specs(said.Inputs); err == nil {
		v.outputs, err = specs(said.Outputs)
	}
	if err != nil {
		return nil, edgewise.Errorf("remote.view", edgewise.Invalid, "the server at %v describes model %v: %w", s.Address, id, err)
	}
	if v.settings, err = s.settings(ctx, id); err == nil {
		return v, nil
	}
	if transient(err) {
		return nil, s.reason(err)
	}
	v.settings = nil // it has no such extension
	return v, nil
}

func specs(list []kserve.TensorMetadata) ([]edgewise.Spec, error) {
	if len(list) > maxTensors {
		return nil, fmt.Errorf("%d tensors, at most %d are allowed", len(list), maxTensors)
	}
	var all []edgewise.Spec
	for _, t := range list {
		typ, ok := edgewise.ParseDataType(t.Datatype)
		switch {
		case t.Name == "" || slices.ContainsFunc(all, func(o edgewise.Spec) bool { return o.Name == t.Name }):
			return nil, fmt.Errorf("tensor %.64q: its name is missing, or there twice", t.Name)
		case !ok:
			return nil, fmt.Errorf("tensor %q: unknown datatype %.64q", t.Name, t.Datatype)
		case len(t.Shape) > edgewise.MaxRank:
			return nil, fmt.Errorf("tensor %q: %d dimensions, at most %d are allowed", t.Name, len(t.Shape), edgewise.MaxRank)
		case slices.ContainsFunc(t.Shape, func(d int64) bool { return d < -1 }):
			return nil, fmt.Errorf("tensor %q: shape %v has a negative size", t.Name, t.Shape)
		}
		all = append(all, edgewise.Spec{Name: t.Name, Type: typ, Shape: t.Shape})
	}
	return all, nil
}

// batch is the largest batch that a configuration may have; ok is false where the server does not tell.
func (v *view) batch() (most int32, ok bool) {
	if v.settings == nil {
		return 0, false
	}
	return max(v.settings.batch, 0), true
}

func (v *view) optional(name string) bool {
	return v.settings != nil && slices.Contains(v.settings.optional, name)
}

// compare holds what a configuration declares against what the server says. What it leaves open fits. Error: Invalid.
func (v *view) compare(m *edgewise.Model) error {
	wrong := func(format string, args ...any) error {
		return edgewise.Errorf("remote.compare", edgewise.Invalid, "model %q: %s; the server at %v describes its model %v otherwise",
			m.Name, fmt.Sprintf(format, args...), v.address, v.id)
	}
	if most, ok := v.batch(); ok && m.MaxBatchSize > most {
		return wrong("max_batch_size is %d, and there it is %d", m.MaxBatchSize, most)
	}
	if v.settings != nil && m.ModelTransactionPolicy != nil && m.Decoupled() != v.settings.decoupled {
		return wrong("model_transaction_policy.decoupled is %v", m.Decoupled())
	}
	if !v.streams && (m.Decoupled() || v.settings != nil && v.settings.decoupled) {
		return edgewise.Errorf("remote.compare", edgewise.Unsupported, "model %q: it is decoupled, and its backend is a server over "+
			"HTTP, where a request has one response: want a grpc address", m.Name)
	}
	for _, in := range m.Input {
		if why := v.fits(v.inputs, in.Name, in.DataType, backendDims(in.Dims, in.Reshape), m.MaxBatchSize); why != "" {
			return wrong("input %q %s", in.Name, why)
		}
	}
	for _, out := range m.Output {
		if why := v.fits(v.outputs, out.Name, out.DataType, backendDims(out.Dims, out.Reshape), m.MaxBatchSize); why != "" {
			return wrong("output %q %s", out.Name, why)
		}
	}
	if len(m.Input) == 0 || m.SequenceBatching != nil || len(m.BatchInput) > 0 { // what the box makes is not declared there
		return nil
	}
	for _, in := range v.inputs {
		declared := slices.ContainsFunc(m.Input, func(d edgewise.ModelInput) bool { return d.Name == in.Name })
		if !declared && !v.optional(in.Name) {
			return wrong("input %q is missing", in.Name)
		}
	}
	return nil
}

// fits says what is wrong with a declared tensor; "": nothing.
func (v *view) fits(list []edgewise.Spec, name string, typ edgewise.DataType, dims edgewise.Shape, batch int32) string {
	at := slices.IndexFunc(list, func(s edgewise.Spec) bool { return s.Name == name })
	if at < 0 {
		return "is not there"
	}
	if list[at].Type != typ {
		return fmt.Sprintf("is %v, and there %v", typ, list[at].Type)
	}
	if _, told := v.batch(); batch < 0 && !told {
		batch = 0
	}
	own := dims
	if batch > 0 || batch < 0 && v.settings.batch > 0 {
		own = append(edgewise.Shape{-1}, dims...)
	}
	if !agree(own, list[at].Shape) {
		return fmt.Sprintf("has the shape %v, and there %v", own, list[at].Shape)
	}
	return ""
}

// agree tells whether a tensor can have both shapes.
func agree(a, b edgewise.Shape) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] >= 0 && b[i] >= 0 && a[i] != b[i] {
			return false
		}
	}
	return true
}

func backendDims(dims edgewise.Shape, r *edgewise.Reshape) edgewise.Shape {
	if r != nil {
		return r.Shape
	}
	return dims
}

// complete is what the server says about what a configuration leaves open.
func (v *view) complete(m *edgewise.Model) *edgewise.Model {
	own := &edgewise.Model{MaxBatchSize: max(m.MaxBatchSize, 0)}
	if most, ok := v.batch(); ok && m.MaxBatchSize < 0 {
		own.MaxBatchSize = most
		if most > 1 {
			own.DynamicBatching = &edgewise.DynamicBatching{}
		}
	}
	if v.settings != nil && v.settings.decoupled {
		own.ModelTransactionPolicy, own.DynamicBatching = &edgewise.ModelTransactionPolicy{Decoupled: true}, nil
	}
	if len(m.Input) == 0 {
		for _, in := range v.inputs {
			dims, reshape := clientDims(in.Shape, own.MaxBatchSize)
			own.Input = append(own.Input, edgewise.ModelInput{
				Name: in.Name, DataType: in.Type, Format: edgewise.FormatNone, Dims: dims, Reshape: reshape,
				Optional: v.optional(in.Name),
			})
		}
	}
	if len(m.Output) == 0 {
		for _, out := range v.outputs {
			dims, reshape := clientDims(out.Shape, own.MaxBatchSize)
			own.Output = append(own.Output, edgewise.ModelOutput{Name: out.Name, DataType: out.Type, Dims: dims, Reshape: reshape})
		}
	}
	return own
}

// clientDims are the dims of a tensor as a configuration has them: without the dimension of the batch, and never empty.
func clientDims(shape edgewise.Shape, batch int32) (edgewise.Shape, *edgewise.Reshape) {
	if batch > 0 && len(shape) > 0 {
		shape = shape[1:]
	}
	if len(shape) == 0 {
		return edgewise.Shape{1}, &edgewise.Reshape{Shape: edgewise.Shape{}}
	}
	return shape, nil
}
