package kserve

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// AppendInferRequest appends the body of req, as a client sends it: inputs in the form in, outputs asked for in the
// form out. jsonSize is the length of the JSON part, to be sent as header HeaderLength whenever it is less than the
// length of what was appended. The model and version go into the path and not into the body. Errors: Invalid for a
// tensor that is not well-formed or has no JSON form, and for parameters of other types than string, int64, bool and
// float64.
func AppendInferRequest(dst []byte, req *edgewise.Request, in, out Form) (body []byte, jsonSize int, err error) {
	size := 256 + 64*len(req.Outputs) + 64*len(req.Parameters)
	for i := range req.Inputs {
		t := &req.Inputs[i]
		if err := t.Check(); err != nil {
			return dst, 0, &edgewise.Error{
				Op: opEncode, Kind: edgewise.Invalid, Model: req.Model,
				Err: &TensorError{Tensor: t.Name, Err: err},
			}
		}
		size += 96 + len(t.Name) + len(t.Data)
		if in == JSON {
			size += textSize(t)
		}
	}
	body = slices.Grow(dst, size)
	if body, err = appendRequest(body, req, in, out); err != nil {
		return dst, 0, edgewise.About(req.Model, err)
	}
	jsonSize = len(body) - len(dst)
	if in == Binary {
		for i := range req.Inputs {
			body = append(body, req.Inputs[i].Data...)
		}
	}
	return body, jsonSize, nil
}

func appendRequest(dst []byte, req *edgewise.Request, in, out Form) ([]byte, error) {
	var err error
	dst = append(dst, '{')
	if req.ID != "" {
		dst = append(appendName(append(dst, `"id":`...), req.ID), ',')
	}
	if dst, err = appendParameters(dst, req, out); err != nil {
		return dst, err
	}
	dst = append(dst, `"inputs":[`...)
	for i := range req.Inputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendTensor(dst, &req.Inputs[i], in); err != nil {
			return dst, err
		}
	}
	dst = append(dst, ']')
	if len(req.Outputs) == 0 {
		return append(dst, '}'), nil
	}
	dst = append(dst, `,"outputs":[`...)
	for i, name := range req.Outputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendName(append(dst, `{"name":`...), name)
		dst = append(dst, `,"parameters":{"binary_data":`...)
		dst = append(strconv.AppendBool(dst, out == Binary), "}}"...)
	}
	return append(dst, "]}"...), nil
}

// appendParameters appends the member "parameters" and a comma. Every request has it: it gives the form of the outputs.
func appendParameters(dst []byte, req *edgewise.Request, out Form) ([]byte, error) {
	dst = append(dst, `"parameters":{"binary_data_output":`...)
	dst = strconv.AppendBool(dst, out == Binary)
	if s := req.Sequence; s.Active() {
		dst = append(dst, `,"sequence_id":`...)
		if s.Name != "" {
			dst = appendName(dst, s.Name)
		} else {
			dst = strconv.AppendUint(dst, s.ID, 10)
		}
		dst = strconv.AppendBool(append(dst, `,"sequence_start":`...), s.Start)
		dst = strconv.AppendBool(append(dst, `,"sequence_end":`...), s.End)
	}
	if req.Priority != 0 {
		dst = strconv.AppendUint(append(dst, `,"priority":`...), req.Priority, 10)
	}
	if req.Timeout > 0 {
		us := (req.Timeout + time.Microsecond - 1) / time.Microsecond
		dst = strconv.AppendInt(append(dst, `,"timeout":`...), int64(us), 10)
	}
	dst, err := appendScalars(dst, req.Parameters, true)
	return append(dst, "},"...), err
}

// DecodeInferResponse reads the body of an answer. jsonSize is the length of its JSON part, -1 when the header is
// absent. Outputs in binary form alias body; there is nothing to release. Errors: Invalid for a body that is no answer
// of the protocol, TooLarge for a bound of lim.
func DecodeInferResponse(body []byte, jsonSize int, lim Limits) (*edgewise.Response, error) {
	text, rest, err := split(body, jsonSize)
	if err != nil {
		return nil, err
	}
	lim = lim.WithDefaults()
	if int64(len(text)) > lim.MaxJSON {
		return nil, tooLarge(lim.MaxJSON, "the answer has a JSON part of %d bytes, at most %d are allowed", len(text),
			lim.MaxJSON)
	}
	c := &tensors{
		cursor: cursor{b: text, maxDepth: lim.MaxDepth}, lim: lim, what: "output", memory: new(arena),
		intern: plainNames{}, into: &Inference{},
	}
	r := &edgewise.Response{}
	if err := readResponse(c, r); err != nil {
		return nil, err
	}
	r.Outputs = c.into.Inputs
	for i := range r.Outputs {
		out, size := &r.Outputs[i], c.binary[i]
		if size > int64(len(rest)) {
			return nil, TensorErrorf(out.Name, "output '%s' was announced with %d bytes, %d are there", out.Name, size,
				len(rest))
		}
		if size >= 0 {
			out.Data, rest = rest[:size:size], rest[size:]
		}
		if err := out.Check(); err != nil {
			return nil, TensorErrorf(out.Name, "%w", err)
		}
	}
	if len(rest) > 0 {
		return nil, invalid("the answer has %d bytes after its last output", len(rest))
	}
	return r, nil
}

type plainNames struct{}

func (plainNames) intern(name []byte) string { return string(name) }

func readResponse(c *tensors, r *edgewise.Response) error {
	if c.next() != '{' {
		return invalid("the answer is %s, want an object", c.found())
	}
	var seen members
	err := c.object(func(name []byte) error {
		switch string(name) {
		case "id":
			id, err := c.string("id", c.lim.MaxName)
			r.ID = string(id)
			return cmp.Or(err, seen.once(hasID, "id"))
		case "model_name":
			text, err := c.string("model_name", c.lim.MaxName)
			r.Model.Name = string(text)
			return cmp.Or(err, seen.once(hasModelName, "model_name"))
		case "model_version":
			return cmp.Or(readVersion(c, r), seen.once(hasModelVersion, "model_version"))
		case "parameters":
			return cmp.Or(readParameters(c, r), seen.once(hasParameters, "parameters"))
		case "outputs":
			if err := seen.once(hasOutputs, "outputs"); err != nil {
				return err
			}
			return c.list("outputs")
		}
		return c.skip(wordsRefused)
	})
	if err != nil {
		return err
	}
	if seen&hasOutputs == 0 {
		return invalid("Unable to parse 'outputs': the answer has none")
	}
	return c.document()
}

// readVersion reads the number that the protocol writes as a string. A version of another kind is left 0.
func readVersion(c *tensors, r *edgewise.Response) error {
	text, err := c.string("model_version", c.lim.MaxName)
	if err != nil {
		return err
	}
	if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		r.Model.Version = v
	}
	return nil
}

func readParameters(c *tensors, r *edgewise.Response) error {
	if c.next() != '{' {
		return invalid("Unable to parse 'parameters': want an object, got %s", c.found())
	}
	return c.object(func(raw []byte) error {
		if len(r.Parameters) >= c.lim.MaxParameters {
			return tooLarge(c.lim.MaxParameters, "the answer has more than %d parameters", c.lim.MaxParameters)
		}
		return c.parameter(&r.Parameters, string(raw))
	})
}
