package kserve

import (
	"errors"
	"math"
	"strconv"

	"github.com/edgewise-ai/edgewise"
)

// HeaderLength is the name of the HTTP header that gives the length of a body's JSON part.
const HeaderLength = "Inference-Header-Content-Length"

// ParseHeaderLength reads the value of the header HeaderLength of a body of bodyLen bytes, after decompression. The
// result is between 0 and bodyLen; 0 announces a raw binary request. Errors: Invalid.
func ParseHeaderLength(value string, bodyLen int) (int, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, invalid("Unable to parse %s, value is out of range [ %d, %d ], got: %s",
			HeaderLength, math.MinInt32, math.MaxInt32, short([]byte(value)))
	case err != nil:
		return 0, invalid("Unable to parse %s, got: %s", HeaderLength, short([]byte(value)))
	case n < 0 || n > int64(bodyLen):
		return 0, outOfRange(bodyLen, int(n))
	}
	return int(n), nil
}

func outOfRange(bodyLen, jsonSize int) error {
	return invalid("inference header size should be in range (0, %d), got: %d", bodyLen, jsonSize)
}

// Infer decodes the body of an inference request to model. jsonSize is the length of its JSON part as ParseHeaderLength
// returned it, or -1 when the header is absent and all of the body is JSON. (A length of 0 is a raw binary request, see
// Raw.) Everything is checked that can be checked without the model.
//
// Errors: Invalid; TooLarge for a bound of Limits. They carry model, and a TensorError where one tensor is at fault.
// Inputs in shared memory have no bytes yet: Shared has their places.
func (d *Decoder) Infer(model edgewise.ModelID, body []byte, jsonSize int) (*InferRequest, error) {
	text, rest, err := split(body, jsonSize)
	if err != nil {
		return nil, edgewise.About(model, err)
	}
	return d.infer(model, text, rest, jsonSize)
}

// InferApart is Infer of a body whose JSON part, text, stands apart from the binary tensors that come after it. Tensors
// of type BYTES are framed, and their frames checked later: where others may write to rest, their bytes are to be
// copied first.
func (d *Decoder) InferApart(model edgewise.ModelID, text, rest []byte) (*InferRequest, error) {
	return d.infer(model, text, rest, len(text))
}

func (d *Decoder) infer(model edgewise.ModelID, text, rest []byte, jsonSize int) (*InferRequest, error) {
	r := d.request(model)
	err := d.decode(r, text)
	if err == nil {
		err = r.takeBinary(rest, jsonSize)
	}
	if err != nil {
		r.Release()
		return nil, edgewise.About(model, err)
	}
	return r, nil
}

// split cuts a body into its JSON part and the binary tensors after it.
func split(body []byte, jsonSize int) (text, rest []byte, err error) {
	switch {
	case jsonSize < 0:
		return body, nil, nil
	case jsonSize > len(body):
		return nil, nil, outOfRange(len(body), jsonSize)
	}
	return body[:jsonSize:jsonSize], body[jsonSize:], nil
}

// The members of a request and of a tensor, as bits.
type members uint16

const (
	hasID members = 1 << iota
	hasParameters
	hasInputs
	hasOutputs
	hasName
	hasShape
	hasDatatype
	hasData
	hasRegion
	hasModelName
	hasModelVersion
	hasBinary
	hasClassification
	hasRegionSize
	hasRegionOffset
)

// once notes that a member was met and refuses it the second time.
func (m *members) once(bit members, name string) error {
	if *m&bit != 0 {
		return invalid("Unable to parse '%s': it is there twice", name)
	}
	*m |= bit
	return nil
}

func (d *Decoder) decode(r *InferRequest, text []byte) error {
	if int64(len(text)) > d.lim.MaxJSON {
		return tooLarge(d.lim.MaxJSON, "request JSON size of %d bytes exceeds the maximum allowed input size of %d bytes. "+
			"Use --http-max-input-size to increase the limit.", len(text), d.lim.MaxJSON)
	}
	c := &r.reader
	*c = tensors{cursor: cursor{b: text, maxDepth: d.lim.MaxDepth}, lim: d.lim, what: "input", memory: &r.memory, intern: r}
	defer func() { c.b = nil }() // the body is its owner's
	c.key, c.dims, c.into, c.binary = r.scratch, r.dims, &r.Inference, r.binary
	err := d.root(r, c)
	r.scratch, r.dims, r.binary = c.key, c.dims, c.binary
	return err
}

func (d *Decoder) root(r *InferRequest, c *tensors) error {
	if c.next() != '{' {
		if c.p >= len(c.b) {
			return c.bad(badEmpty)
		}
		return invalid("the request is %s, want an object", c.root())
	}
	var seen members
	err := c.object(func(name []byte) error {
		switch string(name) {
		case "id":
			if err := seen.once(hasID, "id"); err != nil {
				return err
			}
			id, err := c.string("id", d.lim.MaxName)
			r.ID = string(id)
			return err
		case "parameters":
			if err := seen.once(hasParameters, "parameters"); err != nil {
				return err
			}
			return d.parameters(r, &c.cursor)
		case "inputs":
			if err := seen.once(hasInputs, "inputs"); err != nil {
				return err
			}
			return c.list("inputs")
		case "outputs":
			if err := seen.once(hasOutputs, "outputs"); err != nil {
				return err
			}
			return d.outputs(r, c)
		}
		return c.skip(wordsRefused)
	})
	switch {
	case err != nil:
		return err
	case seen&hasInputs == 0:
		return invalid("Unable to parse 'inputs': the request has none")
	}
	return c.document()
}

// string reads a string value of at most limit bytes, as it is after unescaping. It is valid until the next key.
func (c *cursor) string(member string, limit int) ([]byte, error) {
	if c.next() != '"' {
		return nil, invalid("Unable to parse '%s': want a string, got %s", member, c.found())
	}
	s, err := c.name()
	if err == nil && len(s) > limit {
		return nil, tooLarge(limit, "Unable to parse '%s': it has %d bytes, at most %d are allowed", member, len(s), limit)
	}
	return s, err
}

func (d *Decoder) outputs(r *InferRequest, c *tensors) error {
	if c.next() != '[' {
		return invalid("Unable to parse 'outputs': want an array, got %s", c.found())
	}
	return c.array(func() error {
		if c.count++; c.count > d.lim.MaxTensors {
			return tooLarge(d.lim.MaxTensors, "the request has more than %d inputs and outputs", d.lim.MaxTensors)
		}
		return d.output(r, c)
	})
}

func (d *Decoder) output(r *InferRequest, c *tensors) error {
	if c.next() != '{' {
		return invalid("Unable to parse 'outputs': output %d is %s, want an object", len(r.Outputs), c.found())
	}
	var seen members
	var answer Answer
	err := c.object(func(name []byte) error {
		switch string(name) {
		case "name":
			if err := seen.once(hasName, "name"); err != nil {
				return err
			}
			text, err := c.string("name", d.lim.MaxName)
			if err == nil {
				answer.Name = r.intern(text)
			}
			return err
		case "parameters":
			if err := seen.once(hasParameters, "parameters"); err != nil {
				return err
			}
			return answer.parameters(c, &seen)
		}
		return c.skip(wordsRefused)
	})
	switch {
	case err != nil:
		return err
	case seen&hasName == 0 || answer.Name == "":
		return invalid("Unable to parse 'name': output %d has none", len(r.Outputs))
	}
	if err := answer.Shared.check("output", answer.Name, seen); err != nil {
		return err
	}
	return r.AddOutput(answer)
}

// parameters reads the parameters of a requested output.
func (a *Answer) parameters(c *tensors, seen *members) error {
	if c.next() != '{' {
		return invalid("Unable to parse 'parameters': want an object, got %s", c.found())
	}
	return c.object(func(name []byte) error {
		switch string(name) {
		case "binary_data":
			if err := seen.once(hasBinary, "binary_data"); err != nil {
				return err
			}
			return c.flag("binary_data", &a.Binary)
		case "classification":
			if err := seen.once(hasClassification, "classification"); err != nil {
				return err
			}
			k, err := c.cursor.count("classification")
			a.Classification = int(min(k, maxClasses))
			return err
		}
		if known, err := a.Shared.parameter(c, seen, name); known {
			return err
		}
		return c.skip(wordsRefused)
	})
}

// takeBinary gives the inputs that were announced in binary form their part of rest, in the order of the inputs.
func (r *InferRequest) takeBinary(rest []byte, jsonSize int) error {
	for i := range r.Inputs {
		size, in := r.binary[i], &r.Inputs[i]
		switch {
		case size < 0:
			continue
		case size > 0 && jsonSize < 0:
			return TensorErrorf(in.Name, "must specify valid 'Infer-Header-Content-Length' in request header and "+
				"'binary_data_size' when passing inputs in binary data format")
		case size > int64(len(rest)):
			return TensorErrorf(in.Name, "unexpected size for input '%s', expecting %d additional bytes for model '%s'",
				in.Name, size-int64(len(rest)), r.Model.Name)
		}
		in.Data, rest = rest[:size:size], rest[size:]
	}
	if len(rest) > 0 {
		return invalid("unexpected additional input data for model '%s'", r.Model.Name)
	}
	return nil
}
