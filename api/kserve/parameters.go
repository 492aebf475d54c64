package kserve

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// parameters reads the parameters of a request: those that the protocol defines into their fields, others into
// Parameters.
func (d *Decoder) parameters(r *InferRequest, c *cursor) error {
	if c.next() != '{' {
		return invalid("Unable to parse 'parameters': want an object, got %s", c.found())
	}
	known := knownParameters{r: r}
	return c.object(func(name []byte) error { return d.parameter(r, c, &known, name) })
}

// parameter reads the value of one parameter.
func (d *Decoder) parameter(r *InferRequest, c *cursor, known *knownParameters, name []byte) error {
	if bytes.HasPrefix(name, []byte("triton_")) {
		return invalid("parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.")
	}
	if taken, err := known.read(c, name); taken || err != nil {
		return err
	}
	if len(name) > d.lim.MaxName {
		return tooLarge(d.lim.MaxName, "the name of a parameter has %d bytes, at most %d are allowed", len(name),
			d.lim.MaxName)
	}
	return d.custom(r, c, string(name))
}

type knownParameters struct {
	r    *InferRequest
	seen members
}

// knownNames are the parameters that the protocol defines for a request.
var knownNames = [...]string{
	"sequence_id", "sequence_start", "sequence_end", "priority", "timeout",
	"binary_data_output",
}

// read reads the value of a parameter that the protocol defines. taken is false for other names.
func (k *knownParameters) read(c *cursor, name []byte) (taken bool, err error) {
	i := slices.IndexFunc(knownNames[:], func(known string) bool { return known == string(name) })
	if i < 0 {
		return false, nil
	}
	if err := k.seen.once(1<<i, knownNames[i]); err != nil {
		return true, err
	}
	r := k.r
	switch knownNames[i] {
	case "sequence_id":
		err = r.sequenceID(c)
	case "sequence_start":
		err = c.flag("sequence_start", &r.Sequence.Start)
	case "sequence_end":
		err = c.flag("sequence_end", &r.Sequence.End)
	case "priority":
		r.Priority, err = c.count("priority")
	case "timeout":
		err = r.timeout(c)
	case "binary_data_output":
		err = c.flag("binary_data_output", &r.BinaryOutput)
	}
	return true, err
}

func (r *InferRequest) sequenceID(c *cursor) error {
	if c.next() == '"' {
		name, err := c.name()
		r.Sequence.Name = string(name)
		return err
	}
	id, ok := c.unsigned()
	if !ok {
		return invalid("Unable to parse 'sequence_id': want an unsigned integer or a string, got %s", c.found())
	}
	r.Sequence.ID = id
	return nil
}

// timeout reads microseconds. Times that a time.Duration does not hold (292 years) become the longest one.
func (r *InferRequest) timeout(c *cursor) error {
	us, err := c.count("timeout")
	r.Timeout = time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
	return err
}

func (c *cursor) flag(member string, to *bool) error {
	v, ok := c.bool()
	if !ok {
		return invalid("Unable to parse '%s': want true or false, got %s", member, c.found())
	}
	*to = v
	return nil
}

func (c *cursor) count(member string) (uint64, error) {
	v, ok := c.unsigned()
	if !ok {
		return 0, invalid("Unable to parse '%s': want an unsigned 64-bit integer, got %s", member, c.found())
	}
	return v, nil
}

// custom reads a parameter that the protocol does not define.
func (d *Decoder) custom(r *InferRequest, c *cursor, name string) error {
	if _, twice := r.Parameters[name]; twice {
		return invalid("parameter %q is there twice", name)
	}
	if len(r.Parameters) >= d.lim.MaxParameters {
		return tooLarge(d.lim.MaxParameters, "the request has more than %d custom parameters", d.lim.MaxParameters)
	}
	return c.parameter(&r.Parameters, name)
}

// parameter reads the value of a parameter into a map.
func (c *cursor) parameter(to *map[string]any, name string) error {
	v, err := c.scalar(name)
	if err != nil {
		return err
	}
	if *to == nil {
		*to = make(map[string]any)
	}
	(*to)[name] = v
	return nil
}

// scalar reads the value of a parameter: a string, an int64, a bool or a float64, which takes the integers that an
// int64 does not hold.
func (c *cursor) scalar(name string) (any, error) {
	switch ch := c.next(); {
	case ch == '"':
		text, err := c.name()
		return string(text), err
	case ch == 't' || ch == 'f':
		if v, ok := c.bool(); ok {
			return v, nil
		}
		return nil, c.bad(badValue)
	case ch == '-' || isDigit(ch):
		text, err := c.number()
		if err != nil {
			return nil, err
		}
		if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return v, nil
		}
		v, ok := parseFloat(text, 64)
		if !ok {
			return nil, invalid("parameter %q: %s does not fit a 64-bit float", name, short(text))
		}
		return v, nil
	}
	return nil, invalid("parameter %q: want a string, a number or a bool, got %s", name, c.found())
}

// ForwardHeader makes a request's header one of its parameters. Errors: Invalid for the name of a parameter that the
// protocol defines, TooLarge for too many parameters.
func ForwardHeader(req *edgewise.Request, name, value string) error {
	switch {
	case strings.HasPrefix(name, "triton_"), name == "headers", slices.Contains(knownNames[:], name):
		return invalid("Header '%.100s' is reserved for Triton usage and cannot be forwarded: it is the name of a "+
			"parameter of the protocol", name)
	case len(req.Parameters) >= DefaultMaxParameters:
		return tooLarge(DefaultMaxParameters, "the request has more than %d custom parameters, forwarded headers included",
			DefaultMaxParameters)
	}
	if req.Parameters == nil {
		req.Parameters = map[string]any{}
	}
	req.Parameters[name] = value
	return nil
}
