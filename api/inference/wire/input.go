package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// input is an InferInputTensor whose contents are not decoded yet.
type input struct {
	name, datatype []byte
	shape          edgewise.Shape
	contents       [][]byte // the parts of its contents; usually one
	parameters     tensorParameters
}

// readInputs reads the inputs and finds the bytes of each.
func (r *Request) readInputs(m message, lim kserve.Limits) error {
	r.Inputs, r.Shared = make([]edgewise.Tensor, 0, len(m.inputs)), make([]kserve.Place, 0, len(m.inputs))
	c := converter{limit: lim.MaxDecoded}
	rest := m.raw // of inputs that are not in shared memory
	for _, part := range m.inputs {
		in := input{parameters: tensorParameters{limit: lim.MaxParameters}}
		if err := in.read(part); err != nil {
			return err
		}
		t, err := in.tensor(lim)
		if err != nil {
			return err
		}
		switch place := in.parameters.place; {
		case place.Set() && len(in.contents) > 0:
			return kserve.TensorErrorf(t.Name, "unexpected 'contents' for input '%s' of model '%s': it is in "+
				"shared memory", t.Name, r.Model.Name)
		case place.Set():
		case len(m.raw) == 0:
			t.Data, err = in.converted(&t, r.Model.Name, &c)
		case len(in.contents) > 0:
			err = kserve.TensorErrorf(t.Name, "contents field must not be specified when using raw_input_contents "+
				"for '%s' for model '%s'", t.Name, r.Model.Name)
		case len(rest) == 0:
			err = noData(t.Name, r.Model.Name)
		default:
			t.Data, rest = rest[0], rest[1:]
		}
		if err != nil {
			return err
		}
		if err := r.AddInput(t, in.parameters.place); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return invalid("the request for model '%s' has %d raw_input_contents more than inputs that take them", r.Model.Name,
			len(rest))
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

// maxContents bounds the parts in which the contents of one input may come. Clients send one.
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
		return t, kserve.TensorErrorf(name, "input '%s': '%.40s' is no datatype: want one of %s", name, datatype,
			kserve.Datatypes())
	}
	_, err = kserve.Elements("input", name, t.Type, t.Shape)
	return t, err
}

// converted returns the bytes of an input whose elements come in typed contents, or which has none.
func (in *input) converted(t *edgewise.Tensor, model string, c *converter) ([]byte, error) {
	if n, ok := t.Shape.Elements(); len(in.contents) == 0 && (!ok || n > 0) {
		return nil, noData(t.Name, model)
	}
	return c.convert(t, model, in.contents)
}

func noData(name, model string) error {
	return kserve.TensorErrorf(name, "unable to find data for input tensor '%s' for model '%s' in request.",
		name, model)
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
