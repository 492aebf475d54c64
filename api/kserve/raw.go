package kserve

import (
	"encoding/binary"
	"slices"

	"github.com/edgewise-ai/edgewise"
)

// Raw makes a request out of a body that is the bytes of the one input of model m, or of the one that is not optional,
// as a header length of 0 announces. The shape follows from m and the length of the body: a batch of one, and what is
// left over goes to the one dimension of any size. For an input of type Bytes the body is its one element. All outputs
// are answered in binary form. The input aliases body unless its type is Bytes. Errors: Invalid, TooLarge.
func (d *Decoder) Raw(id edgewise.ModelID, m *edgewise.Model, body []byte) (*InferRequest, error) {
	in := only(m.Input)
	if in == nil {
		return nil, edgewise.About(id, invalid("Raw request must only have 1 input (found 1) to be deduced but got %d inputs in "+
			"'%s' model configuration", len(m.Input), id.Name))
	}
	if int64(len(body)) > d.lim.MaxJSON {
		return nil, edgewise.About(id, tooLarge(d.lim.MaxJSON, "Raw input has a byte_size (%d bytes) that exceeds the maximum "+
			"allowed value of %d bytes. Use --http-max-input-size to increase the limit.", len(body), d.lim.MaxJSON))
	}
	r := d.request(id)
	if err := d.raw(r, in, m.MaxBatchSize > 0, body); err != nil {
		r.Release()
		return nil, edgewise.About(id, err)
	}
	r.BinaryOutput = true
	return r, nil
}

// OnlyInput returns the input that a value or a file without a name means: the only one, or the only one that is not
// optional; nil when it could be several.
func OnlyInput(m *edgewise.Model) *edgewise.ModelInput { return only(m.Input) }

// Batched tells whether the first dimension of all tensors of a model is the batch: the model says so, or all have the
// same first dimension, which is open or one.
func Batched(m *edgewise.Model) bool {
	if m.MaxBatchSize > 0 {
		return true
	}
	all := append(m.Inputs(), m.Outputs()...)
	return !slices.ContainsFunc(all, func(s edgewise.Spec) bool {
		return len(s.Shape) == 0 || s.Shape[0] != all[0].Shape[0] || s.Shape[0] > 1 || s.Shape[0] == 0
	})
}

// only returns the input that a body without a header can mean, nil when it could be several.
func only(inputs []edgewise.ModelInput) *edgewise.ModelInput {
	if len(inputs) == 1 {
		return &inputs[0]
	}
	var found *edgewise.ModelInput
	for i := range inputs {
		switch {
		case inputs[i].Optional:
		case found != nil:
			return nil
		default:
			found = &inputs[i]
		}
	}
	return found
}

func (d *Decoder) raw(r *InferRequest, in *edgewise.ModelInput, batched bool, body []byte) error {
	start := len(r.dims)
	if batched {
		r.dims = append(r.dims, 1)
	}
	open, known := -1, int64(1)
	for _, dim := range in.Dims {
		switch {
		case dim >= 0:
			known *= dim
		case open >= 0:
			return TensorErrorf(in.Name, "The shape of the raw input '%s' can not be deduced because there are more than one "+
				"variable-sized dimension", in.Name)
		default:
			open = len(r.dims)
		}
		r.dims = append(r.dims, dim)
	}
	t := edgewise.Tensor{Name: in.Name, Type: in.DataType, Shape: r.dims[start:len(r.dims):len(r.dims)], Data: body}
	switch {
	case in.DataType == edgewise.Bytes:
		if open >= 0 || known != 1 {
			return TensorErrorf(in.Name, "For BYTE datatype raw input '%s', the model must have input shape [1]", in.Name)
		}
		if int64(len(body)) > d.lim.MaxDecoded {
			return tooLarge(d.lim.MaxDecoded, "raw input '%s' has %d bytes, at most %d are allowed", in.Name, len(body),
				d.lim.MaxDecoded)
		}
		t.Data = r.frame(body)
	case open >= 0:
		row := known * in.DataType.Size()
		if row <= 0 || int64(len(body))%row != 0 {
			return TensorErrorf(in.Name, "The shape of the raw input '%s' can not be deduced: %d bytes are no multiple of %d",
				in.Name, len(body), row)
		}
		r.dims[open] = int64(len(body)) / row
	}
	return r.AddInput(t, Place{})
}

// frame returns a copy of body as the one element of a tensor of type Bytes.
func (r *InferRequest) frame(body []byte) []byte {
	data := r.memory.alloc(4 + len(body))
	binary.LittleEndian.PutUint32(data, uint32(len(body)))
	copy(data[4:], body)
	return data
}

// Media makes a request out of a body that is a file: the one element of the one required input of model m, which has
// type Bytes. All outputs are answered as JSON. The body is copied. Errors: Invalid, TooLarge.
func (d *Decoder) Media(id edgewise.ModelID, m *edgewise.Model, body []byte) (*InferRequest, error) {
	in, err := mediaInput(m)
	if err != nil {
		return nil, edgewise.About(id, err)
	}
	r := d.request(id)
	if err := r.AddFile(in, m.MaxBatchSize > 0, body); err != nil {
		r.Release()
		return nil, edgewise.About(id, err)
	}
	return r, nil
}

// Files begins a request to id whose inputs are files, of another protocol. The caller adds them.
func (d *Decoder) Files(id edgewise.ModelID) *InferRequest { return d.request(id) }

// AddFile adds input in of a model, batched or not, that is a file: the one element of an input of type Bytes, which is
// copied, and else the bytes of the elements, as Raw has them. Errors: Invalid, TooLarge.
func (r *InferRequest) AddFile(in *edgewise.ModelInput, batched bool, body []byte) error {
	if in.DataType != edgewise.Bytes {
		return r.decoder.raw(r, in, batched, body)
	}
	start := len(r.dims)
	if batched {
		r.dims = append(r.dims, 1)
	}
	for _, dim := range in.Dims {
		if dim > 1 || dim == 0 {
			return TensorErrorf(in.Name, "input '%s' takes no file: it has shape %v, not one element", in.Name, in.Dims)
		}
		r.dims = append(r.dims, 1)
	}
	if int64(len(body)) > r.decoder.lim.MaxDecoded {
		return tooLarge(r.decoder.lim.MaxDecoded, "input '%s' has %d bytes, at most %d are allowed", in.Name, len(body),
			r.decoder.lim.MaxDecoded)
	}
	shape := r.dims[start:len(r.dims):len(r.dims)]
	return r.AddInput(edgewise.Tensor{Name: in.Name, Type: in.DataType, Shape: shape, Data: r.frame(body)}, Place{})
}

// mediaInput returns the input that a file goes to.
func mediaInput(m *edgewise.Model) (*edgewise.ModelInput, error) {
	var only *edgewise.ModelInput
	for i := range m.Input {
		in := &m.Input[i]
		if in.Optional {
			continue
		}
		if only != nil {
			return nil, invalid("model '%s' takes no file as the body of a request: it has several inputs, '%s' and '%s' "+
				"among them", m.Name, only.Name, in.Name)
		}
		only = in
	}
	switch {
	case only == nil:
		return nil, invalid("model '%s' takes no file as the body of a request: it has no required input", m.Name)
	case only.DataType != edgewise.Bytes:
		return nil, TensorErrorf(only.Name, "model '%s' takes no file as the body of a request: its input '%s' has type "+
			"%v, not BYTES", m.Name, only.Name, only.DataType)
	}
	for _, dim := range only.Dims {
		if dim > 1 || dim == 0 {
			return nil, TensorErrorf(only.Name, "model '%s' takes no file as the body of a request: its input '%s' has shape "+
				"%v, not one element", m.Name, only.Name, only.Dims)
		}
	}
	return only, nil
}
