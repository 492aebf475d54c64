package tensorflow

import (
	"slices"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// DefaultSignature is the name of the one signature that a model has here.
const DefaultSignature = "serving_default"

const opDecode = "tensorflow.Decode"

// Request is a request decoded from a body. Its memory is the InferRequest's.
type Request struct {
	*kserve.InferRequest
	Rows    bool // the inputs came as rows, and the outputs go as rows
	batched bool // the first dimension of all tensors is the batch
	count   int  // rows
}

// Predict decodes a request for predictions to model m: "instances" is a list of rows, each a value, or an object with
// a value for each input; "inputs" is a whole tensor, or an object with one for each input. Errors: Invalid, TooLarge.
func Predict(d *kserve.Decoder, id edgewise.ModelID, m *edgewise.Model, body []byte) (*Request, error) {
	return decode(d, id, m, body, func(r *reader, name string) (func() error, bool) {
		switch name {
		case "instances":
			r.Rows = true
			return r.instances, true
		case "inputs":
			return r.inputs, true
		}
		return nil, false
	}, `Missing 'inputs' or 'instances' key`)
}

// Examples decodes a request for a classification or a regression: "examples" is a list of objects with a value for each
// input, and "context" has values that all of them share. Errors: Invalid, TooLarge.
func Examples(d *kserve.Decoder, id edgewise.ModelID, m *edgewise.Model, body []byte) (*Request, error) {
	return decode(d, id, m, body, func(r *reader, name string) (func() error, bool) {
		switch name {
		case "examples":
			r.Rows = true
			return func() error { return r.rows("examples") }, true
		case "context":
			return r.context, false
		}
		return nil, false
	}, `key 'examples' is expected and was not found`)
}

// reader reads one body.
type reader struct {
	Request
	*kserve.Nested
	model  *edgewise.Model
	specs  []edgewise.Spec
	values []*kserve.Values // of the inputs, in the order in which they were met
	shared []*kserve.Values // of the context
	whole  bool             // the one value has all rows
}

// decode reads a body. member returns what reads a member, and whether the tensors are in it.
func decode(
	d *kserve.Decoder, id edgewise.ModelID, m *edgewise.Model, body []byte,
	member func(r *reader, name string) (read func() error, tensors bool), missing string,
) (*Request, error) {
	r := &reader{model: m, specs: m.Inputs()}
	r.batched = kserve.Batched(m)
	met := ""
	req, err := d.Nested(id, body, func(n *kserve.Nested) error {
		r.Nested = n
		err := n.Object(func(name []byte) error {
			known := string(name)
			if known == "signature_name" {
				return r.signature()
			}
			read, tensors := member(r, known)
			switch {
			case read == nil:
				return n.Skip()
			case tensors && met != "":
				return invalid("'%s' and '%s' are there: expecting only one of 'inputs' and 'instances', once", met, known)
			case tensors:
				met = known
			}
			return read()
		})
		switch {
		case err != nil:
			return err
		case met == "":
			return invalid("%s", missing)
		}
		return r.finish()
	})
	if err != nil {
		return nil, err
	}
	r.InferRequest = req
	return &r.Request, nil
}

func (r *reader) signature() error {
	name, err := r.Text("signature_name")
	if err == nil && name != "" && name != DefaultSignature {
		err = invalid("Serving signature name: \"%s\" not found in signature def: this model has %q alone", name,
			DefaultSignature)
	}
	return err
}

// instances finds the values of the row form.
func (r *reader) instances() error {
	if r.Next() != '[' {
		return invalid("expecting 'instances' to be a list, got %s", r.Found())
	}
	if first := r.First(); first.Next() == '{' && !first.Single("b64") {
		return r.rows("instances")
	}
	return r.plain("instances")
}

// inputs finds the values of the column form.
func (r *reader) inputs() error {
	if r.Next() != '{' || r.Single("b64") {
		return r.plain("inputs")
	}
	return r.Object(func(name []byte) error { return r.input("inputs", string(name), 0, &r.values) })
}

// plain finds the whole value of the only input.
func (r *reader) plain(member string) error {
	in := kserve.OnlyInput(r.model)
	if in == nil {
		return invalid("'%s' is a plain list, but expecting objects: the model has several inputs", member)
	}
	at := slices.IndexFunc(r.specs, func(s edgewise.Spec) bool { return s.Name == in.Name })
	v := kserve.Of(r.specs[at])
	r.values, r.whole = append(r.values, v), true
	return r.Find(v, func() string { return member })
}

// rows finds the values of a list of objects.
func (r *reader) rows(member string) error {
	if r.Next() != '[' {
		return invalid("expecting '%s' to be a list, got %s", member, r.Found())
	}
	return r.Array(func() error {
		row := r.count
		r.count++
		if r.Next() != '{' {
			return invalid("%s[%d] is %s: expecting an object, as the ones before it are", member, row, r.Found())
		}
		err := r.Object(func(name []byte) error { return r.input(member, string(name), row, &r.values) })
		if err != nil {
			return err
		}
		for _, v := range r.values {
			if v.Rows() != r.count {
				return kserve.TensorErrorf(v.Spec().Name, "%s[%d] has no '%s', which the ones before have", member, row, v.Spec().Name)
			}
		}
		return nil
	})
}

// context finds the values that all examples share.
func (r *reader) context() error {
	if r.Next() != '{' {
		return invalid("expecting 'context' to be an object, got %s", r.Found())
	}
	return r.Object(func(name []byte) error { return r.input("context", string(name), 0, &r.shared) })
}

// input finds the value of an input in a row.
func (r *reader) input(member, name string, row int, list *[]*kserve.Values) error {
	i := slices.IndexFunc(*list, func(v *kserve.Values) bool { return v.Spec().Name == name })
	if i < 0 {
		at := slices.IndexFunc(r.specs, func(s edgewise.Spec) bool { return s.Name == name })
		switch {
		case at < 0:
			return invalid("%s has '%.200s', which is no input of the model: it has %s", member, name, names(r.specs))
		case row > 0:
			return kserve.TensorErrorf(name, "%s[%d] has '%s', which the ones before do not have", member, row, name)
		}
		i = len(*list)
		*list = append(*list, kserve.Of(r.specs[at]))
	}
	v := (*list)[i]
	if v.Rows() != row {
		return kserve.TensorErrorf(name, "%s[%d] has '%s' twice", member, row, name)
	}
	return r.Find(v, func() string {
		if r.Rows && member != "context" {
			return place(member, row, name)
		}
		return member + "." + name
	})
}

// finish reads the values that were found.
func (r *reader) finish() error {
	if err := r.complete(); err != nil {
		return err
	}
	for _, v := range r.values {
		shape := v.Shape()
		if r.Rows && !r.whole {
			shape = append(edgewise.Shape{int64(r.count)}, shape...)
		}
		shape, err := r.fit(v.Spec(), shape)
		if err != nil {
			return err
		}
		if err := r.Read(v, shape); err != nil {
			return err
		}
	}
	return nil
}

// complete counts the rows, gives each the values of the context, and checks that no input is missing.
func (r *reader) complete() error {
	if r.Rows && r.whole {
		r.count = int(r.values[0].Shape()[0])
	}
	switch {
	case r.Rows && r.count == 0:
		return invalid("the list of instances has no values")
	case r.Rows && !r.batched && r.count > 1:
		return invalid("the request has %d instances, and this model takes one at a time: it has no batch dimension", r.count)
	}
	for _, v := range r.shared {
		if !has(r.values, v.Spec().Name) {
			if err := r.Repeat(v, r.count); err != nil {
				return err
			}
			r.values = append(r.values, v)
		}
	}
	for _, spec := range r.specs {
		if !spec.Optional && !has(r.values, spec.Name) {
			return kserve.TensorErrorf(spec.Name, "Missing named input: %s", spec.Name)
		}
	}
	return nil
}

// fit returns the shape of an input whose values have a shape: dimensions of one may be left out at the end, or be too
// many there, and the one of the rows where the model has no batch dimension.
func (r *reader) fit(spec edgewise.Spec, shape edgewise.Shape) (edgewise.Shape, error) {
	want := len(spec.Shape)
	if r.Rows && !r.batched && len(shape) > want {
		shape = shape[1:]
	}
	for len(shape) > want && shape[len(shape)-1] == 1 {
		shape = shape[:len(shape)-1]
	}
	if len(shape) > edgewise.MaxRank {
		return nil, kserve.TensorErrorf(spec.Name, "input '%s' has more than %d dimensions", spec.Name, edgewise.MaxRank)
	}
	for len(shape) < want && (spec.Shape[len(shape)] == 1 || spec.Shape[len(shape)] < 0) {
		shape = append(shape, 1)
	}
	return shape, nil
}

func has(list []*kserve.Values, name string) bool {
	return slices.ContainsFunc(list, func(v *kserve.Values) bool { return v.Spec().Name == name })
}
