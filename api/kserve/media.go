package kserve

import (
	"encoding/binary"

	"github.com/edgewise-ai/edgewise"
)

// Media makes a request out of a body that is a file: the one element of the one required input of model m, which has
// type Bytes. All outputs are answered as JSON. The body is copied. Errors: Invalid, TooLarge.
func (d *Decoder) Media(id edgewise.ModelID, m *edgewise.Model, body []byte) (*InferRequest, error) {
	in, err := mediaInput(m)
	if err != nil {
		return nil, about(id, err)
	}
	if int64(len(body)) > d.lim.MaxDecoded {
		return nil, about(id, tooLarge(d.lim.MaxDecoded, "input '%s' has %d bytes, at most %d are allowed", in.Name,
			len(body), d.lim.MaxDecoded))
	}
	r := d.request(id)
	if m.MaxBatchSize > 0 {
		r.dims = append(r.dims, 1)
	}
	for range in.Dims {
		r.dims = append(r.dims, 1)
	}
	data := r.memory.take(4 + len(body))
	binary.LittleEndian.PutUint32(data, uint32(len(body)))
	copy(data[4:], body)
	r.Inputs = append(r.Inputs, edgewise.Tensor{Name: in.Name, Type: in.DataType, Shape: r.dims, Data: data})
	r.binary = append(r.binary, -1)
	return r, nil
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
		return nil, tensorMessage(only.Name, "model '%s' takes no file as the body of a request: its input '%s' has type "+
			"%v, not BYTES", m.Name, only.Name, only.DataType)
	}
	for _, dim := range only.Dims {
		if dim > 1 || dim == 0 {
			return nil, tensorMessage(only.Name, "model '%s' takes no file as the body of a request: its input '%s' has shape "+
				"%v, not one element", m.Name, only.Name, only.Dims)
		}
	}
	return only, nil
}
