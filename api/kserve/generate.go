package kserve

import (
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise"
)

// Generate makes a request out of the body of the generate extension: one flat JSON object. "id" is as in an inference
// request. The members of the object "parameters" and all others are inputs where model m has one of that name, and
// else parameters. An input is a scalar or an array of scalars; its shape follows from m: fixed dimensions divide the
// number of elements, the last open one takes what is left, others become 1. All outputs are answered. Errors: Invalid,
// TooLarge; a TensorError where one input is at fault.
func (d *Decoder) Generate(id edgewise.ModelID, m *edgewise.Model, body []byte) (*InferRequest, error) {
	if int64(len(body)) > d.lim.MaxJSON {
		return nil, edgewise.About(id, tooLarge(d.lim.MaxJSON, "request JSON size of %d bytes exceeds the maximum allowed input "+
			"size of %d bytes. Use --http-max-input-size to increase the limit.", len(body), d.lim.MaxJSON))
	}
	r := d.request(id)
	g := generation{
		d: d, r: r, inputs: m.Inputs(),
		c: &tensors{
			cursor: cursor{b: body, maxDepth: d.lim.MaxDepth, key: r.scratch}, lim: d.lim, what: "input",
			memory: &r.memory, intern: r,
		},
	}
	err := g.read()
	r.scratch = g.c.key
	if err != nil {
		r.Release()
		return nil, edgewise.About(id, err)
	}
	r.BinaryOutput = false
	return r, nil
}

// generation reads the body of one generate request.
type generation struct {
	d      *Decoder
	r      *InferRequest
	c      *tensors
	inputs []edgewise.Spec
	known  knownParameters
	seen   members
}

func (g *generation) read() error {
	g.known.r = g.r
	if g.c.next() != '{' {
		if g.c.p >= len(g.c.b) {
			return g.c.bad(badEmpty)
		}
		return invalid("the request is %s, want an object", g.c.root())
	}
	err := g.c.object(func(name []byte) error {
		switch string(name) {
		case "id":
			if err := g.seen.once(hasID, "id"); err != nil {
				return err
			}
			text, err := g.c.string("id", g.d.lim.MaxName)
			g.r.ID = string(text)
			return err
		case "parameters":
			if g.c.next() != '{' {
				break
			}
			if err := g.seen.once(hasParameters, "parameters"); err != nil {
				return err
			}
			return g.c.object(g.member)
		}
		return g.member(name)
	})
	if err != nil {
		return err
	}
	return g.c.document()
}

// member reads an input or a parameter.
func (g *generation) member(name []byte) error {
	i := slices.IndexFunc(g.inputs, func(s edgewise.Spec) bool { return s.Name == string(name) })
	if i >= 0 {
		return g.input(g.inputs[i])
	}
	if ch := g.c.next(); ch == '[' || ch == '{' || ch == 'n' {
		return invalid("parameter '%.100s' has invalid type: the model has no such input, and a parameter is a string, a "+
			"number or a bool, not %s", name, g.c.found())
	}
	return g.d.parameter(g.r, &g.c.cursor, &g.known, name)
}

func (g *generation) input(spec edgewise.Spec) error {
	value, n, err := g.value(spec)
	if err != nil {
		return err
	}
	t := tensor{binary: -1}
	t.Name, t.Type = spec.Name, spec.Type
	var ok bool
	if t.Shape, ok = fit(spec.Shape, n); !ok {
		return TensorErrorf(spec.Name, "The schema can not convert input '%s' to tensor with proper shape: %d elements do "+
			"not make shape %v", spec.Name, n, spec.Shape)
	}
	// The value is read as the only one of a text of its own, with the counts of the whole request.
	own := *g.c
	own.b, own.p, own.depth = value, 0, 0
	err = own.fill(&t, len(value))
	g.c.sum, g.c.key = own.sum, own.key
	if err != nil {
		return err
	}
	g.r.binary = append(g.r.binary, -1)
	return g.r.AddInput(t.Tensor, Place{})
}

// mismatch is Triton's message about a value in the place of a string or a bool; the server's own message follows it.
func mismatch(t edgewise.DataType) string {
	switch t {
	case edgewise.Bytes:
		return "attempt to access JSON non-string as string: "
	case edgewise.Bool:
		return "attempt to access JSON non-boolean as boolean: "
	}
	return ""
}

// value passes the value of an input and returns it as an array, with the number of its elements.
func (g *generation) value(spec edgewise.Spec) (text []byte, n int64, err error) {
	c := &g.c.cursor
	switch ch := c.next(); ch {
	case '{', 'n':
		return nil, 0, TensorErrorf(spec.Name, "Unable to parse '%s': %swant a value or an array of values, got %s", spec.Name,
			mismatch(spec.Type), c.found())
	case '[':
		start := c.p
		err = c.array(func() error {
			if ch := c.next(); ch == '[' || ch == '{' {
				return TensorErrorf(spec.Name, "Unable to parse '%s': %swant an array of values, got %s in it", spec.Name,
					mismatch(spec.Type), c.found())
			}
			n++
			return c.skip(wordsAllowed)
		})
		return c.b[start:c.p], n, err
	}
	start := c.p
	if err := c.skip(wordsAllowed); err != nil {
		return nil, 0, err
	}
	text = append(make([]byte, 0, c.p-start+2), '[')
	return append(append(text, c.b[start:c.p]...), ']'), 1, nil
}

// fit returns a shape of n elements that a model accepts. ok is false when no shape fits.
func fit(want edgewise.Shape, n int64) (shape edgewise.Shape, ok bool) {
	shape = slices.Clone(want)
	open := -1
	for i, dim := range shape {
		switch {
		case dim < 0:
			shape[i], open = 1, i
		case dim == 0 || n%dim != 0:
			return nil, false
		default:
			n /= dim
		}
	}
	if open >= 0 {
		shape[open], n = n, 1
	}
	return shape, n == 1
}

// AppendGenerateRequest appends the body of a generate request: each input by its name, as a flat array. shapes are those
// that the model declares, by the names of its inputs. Errors: Invalid for an input that has no JSON form, and for one
// whose shape would be read as another. Then dst is returned as it was.
func AppendGenerateRequest(
	dst []byte, req *edgewise.Request, shapes map[string]edgewise.Shape,
) ([]byte, error) {
	body := append(dst, '{')
	if req.ID != "" {
		body = append(appendName(append(body, `"id":`...), req.ID), ',')
	}
	body, err := appendParameters(body, req, JSON)
	if err != nil {
		return dst, err
	}
	body = body[:len(body)-1] // the comma
	for i := range req.Inputs {
		in := &req.Inputs[i]
		n, _ := in.Shape.Elements()
		if read, ok := fit(shapes[in.Name], n); !ok || !read.Equal(in.Shape) {
			return dst, TensorErrorf(in.Name, "input '%s' has the shape %v: a generate request has no shapes, and the model, which "+
				"declares %v, would read %d elements as %v", in.Name, in.Shape, shapes[in.Name], n, read)
		}
		if body, err = appendFlat(body, in); err != nil {
			return dst, err
		}
	}
	return append(body, '}'), nil
}

// AppendGenerateResponse appends the answer resp to a generate request: one flat JSON object with each output by its
// name, as a scalar when it has one element and as a flat array otherwise. Errors: Invalid for an output that has no
// JSON form, Internal for one that is not well-formed. Then dst is returned as it was.
func AppendGenerateResponse(dst []byte, resp *edgewise.Response) ([]byte, error) {
	body := append(dst, `{"model_name":`...)
	body = appendName(body, resp.Model.Name)
	body = append(body, `,"model_version":"`...)
	body = append(strconv.AppendInt(body, resp.Model.Version, 10), '"')
	if resp.ID != "" {
		body = appendName(append(body, `,"id":`...), resp.ID)
	}
	for i := range resp.Outputs {
		var err error
		if body, err = appendFlat(body, &resp.Outputs[i]); err != nil {
			return dst, edgewise.About(resp.Model, err)
		}
	}
	if len(resp.Parameters) > 0 {
		var err error
		if body, err = appendScalars(append(body, ','), resp.Parameters, false); err != nil {
			return dst, err
		}
	}
	return append(body, '}'), nil
}

func appendFlat(dst []byte, out *edgewise.Tensor) ([]byte, error) {
	if err := out.Check(); err != nil {
		return dst, edgewise.Errorf(opEncode, edgewise.Internal, "%w", err)
	}
	dst = append(appendName(append(dst, ','), out.Name), ':')
	start := len(dst)
	dst, err := appendElements(dst, out)
	if n, _ := out.Shape.Elements(); err == nil && n == 1 { // without its brackets
		dst = append(dst[:start], dst[start+1:len(dst)-1]...)
	}
	return dst, err
}
