package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// input is an InferInputTensor of which only the frame has been read.
type input struct {
	name, datatype []byte
	shape          edgewise.Shape
	contents       [][]byte // the parts of its contents; usually one
	parameters     tensorParameters
}

// readInputs reads the inputs and finds the bytes of each.
func (r *Request) readInputs(m message, lim kserve.Limits) error {
	r.Inputs = make([]edgewise.Tensor, 0, len(m.inputs))
	c := converter{limit: lim.MaxDecoded}
	for i, part := range m.inputs {
		in := input{parameters: tensorParameters{limit: lim.MaxParameters}}
		if err := in.read(part); err != nil {
			return err
		}
		t, err := in.tensor(lim)
		if err != nil {
			return err
		}
		if t.Data, err = in.data(&t, r.Model.Name, m.raw, i, &c); err != nil {
			return err
		}
		r.Inputs = append(r.Inputs, t)
	}
	if len(m.raw) > len(m.inputs) {
		return invalid("the request has %d raw_input_contents for %d inputs", len(m.raw), len(m.inputs))
	}
	return nil
}

func (in *input) read(part []byte) error {
	return fields(part, func(f field) error {
		switch {
		case f.is(1, protowire.BytesType):
			in.name = f.bytes
		case f.is(2, protowire.BytesType):
			in.datatype = f.bytes
		case f.is(3, protowire.VarintType):
			return in.dimension(f.value)
		case f.is(3, protowire.BytesType):
			return varints(f.bytes, in.dimension)
		case f.is(4, protowire.BytesType):
			return in.parameters.read(f.bytes)
		case f.is(5, protowire.BytesType):
			if len(in.contents) >= maxContents {
				return tooLarge("the contents of an input come in more than %d parts", maxContents)
			}
			in.contents = append(in.contents, f.bytes)
		}
		return nil
	})
}

// maxContents bounds the parts in which the contents of one input may come. Everybody sends one.
const maxContents = 16

func (in *input) dimension(v uint64) error {
	if len(in.shape) >= edgewise.MaxRank {
		return invalid("the shape of input '%.100s' has more than %d dimensions", in.name, edgewise.MaxRank)
	}
	in.shape = append(in.shape, int64(v))
	return nil
}

// tensor returns the input without its bytes.
func (in *input) tensor(lim kserve.Limits) (edgewise.Tensor, error) {
	name, err := text("the name of an input", in.name, lim.MaxName)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	datatype, err := text("the datatype of an input", in.datatype, 0)
	if err != nil {
		return edgewise.Tensor{}, err
	}
	if err := in.parameters.check("input", name); err != nil {
		return edgewise.Tensor{}, err
	}
	t := edgewise.Tensor{Name: name, Shape: in.shape}
	var ok bool
	if t.Type, ok = edgewise.ParseDataType(datatype); !ok {
		return t, tensorError(edgewise.Invalid, name, "input '%s': '%.40s' is no datatype, want one of BOOL, UINT8, UINT16, UINT32, UINT64, "+
			"INT8, INT16, INT32, INT64, FP16, FP32, FP64, BF16, BYTES", name, datatype)
	}
	return t, nil
}

// data returns the bytes of the input number i.
func (in *input) data(t *edgewise.Tensor, model string, raw [][]byte, i int, c *converter) ([]byte, error) {
	if len(raw) > 0 && len(in.contents) > 0 {
		return nil, tensorError(edgewise.Invalid, t.Name, "contents field must not be specified when using raw_input_contents for '%s' for model '%s'", t.Name, model)
	}
	if i < len(raw) {
		return raw[i], nil
	}
	if n, _ := t.Shape.Elements(); len(in.contents) > 0 || n == 0 && len(t.Shape) > 0 && len(raw) == 0 {
		return c.convert(t, model, in.contents)
	}
	return nil, tensorError(edgewise.Invalid, t.Name, "unable to find data for input tensor '%s' for model '%s' in request.", t.Name, model)
}

// varints calls visit for each of packed numbers.
func varints(packed []byte, visit func(v uint64) error) error {
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return malformed(n)
		}
		if err := visit(v); err != nil {
			return err
		}
		packed = packed[n:]
	}
	return nil
}
