package kserve

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/scalar"
)

// AppendInferResponse appends the body of the answer resp to req: the JSON part of jsonSize bytes, and after it the
// outputs that the client wants in binary form. The header HeaderLength and the content type application/octet-stream
// are due when there are such outputs, also when all of them are empty; see InferRequest.Binary.
//
// It copies the outputs once and reserves room for all of the body up front. Errors: Invalid for an output that has no
// JSON form or no classes, with a TensorError; Internal for an output that is not well-formed. Then dst is returned as
// it was.
func AppendInferResponse(dst []byte, req *InferRequest, resp *edgewise.Response) (body []byte, jsonSize int,
	err error,
) {
	shown, err := req.Classes.Apply(&req.Inference, resp)
	if err != nil {
		return dst, 0, err
	}
	a := answerWriter{req: req, resp: shown}
	body = slices.Grow(dst, a.size())
	if body, err = a.json(body); err != nil {
		return dst, 0, err
	}
	jsonSize = len(body) - len(dst)
	for i := range shown.Outputs {
		if req.sendsBytes(shown.Outputs[i].Name) {
			body = append(body, shown.Outputs[i].Data...)
		}
	}
	return body, jsonSize, nil
}

// Binary tells whether the answer has a binary part, which may be empty.
func (r *InferRequest) Binary(resp *edgewise.Response) bool {
	return slices.ContainsFunc(resp.Outputs, func(out edgewise.Tensor) bool { return r.sendsBytes(out.Name) })
}

// sendsBytes tells whether an output stands in the binary part of the answer.
func (r *InferRequest) sendsBytes(output string) bool {
	answer := r.answer(output)
	return answer.Binary && !answer.Shared.Set()
}

// answer returns what the client said about an output.
func (r *InferRequest) answer(name string) Answer {
	answer := r.Answer(name)
	answer.Binary = answer.Binary || r.BinaryOutput && len(r.Answers) == 0
	return answer
}

type answerWriter struct {
	req  *InferRequest
	resp *edgewise.Response // with the classes that are wanted
}

// size estimates the bytes of the body, rather too many than too few.
func (a *answerWriter) size() int {
	n := 128 + len(a.resp.ID) + len(a.resp.Model.Name) + 64*len(a.resp.Parameters)
	for i := range a.resp.Outputs {
		out := &a.resp.Outputs[i]
		n += 96 + len(out.Name) + 8*len(out.Shape)
		switch answer := a.req.answer(out.Name); {
		case answer.Shared.Set():
		case answer.Binary:
			n += len(out.Data)
		default:
			n += textSize(out)
		}
	}
	return n
}

// textSize estimates the bytes of a tensor's elements as JSON.
func textSize(t *edgewise.Tensor) int {
	switch t.Type {
	case edgewise.Bytes:
		return len(t.Data) + len(t.Data)/8
	case edgewise.FP32:
		return len(t.Data) / 4 * 14
	case edgewise.FP64:
		return len(t.Data) / 8 * 22
	}
	return len(t.Data) / int(t.Type.Size()) * 6
}

func (a *answerWriter) json(dst []byte) ([]byte, error) {
	dst = append(dst, '{')
	if a.resp.ID != "" {
		dst = append(dst, `"id":`...)
		dst = append(appendName(dst, a.resp.ID), ',')
	}
	dst = append(dst, `"model_name":`...)
	dst = appendName(dst, a.resp.Model.Name)
	dst = append(dst, `,"model_version":"`...)
	dst = strconv.AppendInt(dst, a.resp.Model.Version, 10)
	dst = append(dst, '"')
	if len(a.resp.Parameters) > 0 {
		dst = append(dst, `,"parameters":{`...)
		var err error
		if dst, err = appendScalars(dst, a.resp.Parameters, false); err != nil {
			return dst, err
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"outputs":[`...)
	for i := range a.resp.Outputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		f := JSON
		switch answer := a.req.answer(a.resp.Outputs[i].Name); {
		case answer.Shared.Set():
			f = elsewhere
		case answer.Binary:
			f = Binary
		}
		var err error
		if dst, err = appendTensor(dst, &a.resp.Outputs[i], f); err != nil {
			return dst, edgewise.About(a.resp.Model, err)
		}
	}
	return append(dst, "]}"...), nil
}

// Form is how the elements of tensors are sent.
type Form uint8

// The forms.
const (
	JSON   Form = iota // as numbers and strings, for people and for programs without the extension
	Binary             // as bytes behind the JSON part: several times faster, and exact for all types

	elsewhere // not in the body at all
)

// String returns "json" or "binary".
func (f Form) String() string {
	switch f {
	case JSON:
		return "json"
	case Binary:
		return "binary"
	case elsewhere:
		return "elsewhere"
	}
	return fmt.Sprintf("Form(%d)", uint8(f))
}

// appendTensor appends the JSON object of a tensor: with its elements, or with the number of its bytes that follow.
func appendTensor(dst []byte, t *edgewise.Tensor, f Form) ([]byte, error) {
	dst = append(dst, `{"name":`...)
	dst = appendName(dst, t.Name)
	dst = append(dst, `,"datatype":"`...)
	dst = append(dst, t.Type.String()...)
	dst = append(dst, `","shape":`...)
	dst = appendShape(dst, t.Shape)
	if f == Binary {
		dst = append(dst, `,"parameters":{"binary_data_size":`...)
		dst = strconv.AppendInt(dst, int64(len(t.Data)), 10)
		return append(dst, "}}"...), nil
	}
	if f == elsewhere {
		return append(dst, '}'), nil
	}
	dst = append(dst, `,"data":`...)
	dst, err := appendElements(dst, t)
	return append(dst, '}'), err
}

// appendElements appends the elements of t, which is well-formed, as a flat JSON array.
//
// Floats are written in the shortest form that reads back to the same bits of their own type; FP16 and BF16 in that of
// the float32 of equal value. NaN and the infinities are the bare words NaN, Infinity and -Infinity. Errors: Invalid
// for an element of type Bytes that is not valid UTF-8.
func appendElements(dst []byte, t *edgewise.Tensor) ([]byte, error) {
	if t.Type == edgewise.Bytes {
		return appendStrings(dst, t)
	}
	size := int(t.Type.Size())
	dst = append(dst, '[')
	for at := 0; at+size <= len(t.Data); at += size {
		if at > 0 {
			dst = append(dst, ',')
		}
		dst = appendElement(dst, t.Type, t.Data[at:])
	}
	return append(dst, ']'), nil
}

// appendElement appends the number at the start of data.
func appendElement(dst []byte, typ edgewise.DataType, data []byte) []byte {
	if !typ.IsFloat() {
		return scalar.AppendInteger(dst, typ, data)
	}
	bitSize := 32 // of the Go type in which the element is exact
	if typ == edgewise.FP64 {
		bitSize = 64
	}
	return appendFloat(dst, scalar.Float(typ, data), bitSize)
}

// exponential is from where on numbers are written with an exponent.
const exponential = 1e21

func appendFloat(dst []byte, v float64, bitSize int) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	case math.IsInf(v, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(v, -1):
		return append(dst, "-Infinity"...)
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= exponential) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, bitSize)
}

func appendStrings(dst []byte, t *edgewise.Tensor) ([]byte, error) {
	dst = append(dst, '[')
	i := 0
	for element := range edgewise.Elements(t.Data) {
		if !utf8.Valid(element) {
			return dst, &edgewise.Error{
				Op: opEncode, Kind: edgewise.Invalid,
				Err: &TensorError{Tensor: t.Name, Err: notText(t.Name, i)},
			}
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, element)
		i++
	}
	return append(dst, ']'), nil
}

func notText(name string, i int) error {
	return fmt.Errorf("tensor %q: element %d is not valid UTF-8, which JSON cannot carry: use the binary form", name, i)
}

func appendShape(dst []byte, shape edgewise.Shape) []byte {
	dst = append(dst, '[')
	for i, d := range shape {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, d, 10)
	}
	return append(dst, ']')
}

// appendScalars appends the members of a JSON object, sorted by name. comma says whether members stand before them.
// Errors: Invalid for a value that is no string, integer, bool or finite float.
func appendScalars(dst []byte, all map[string]any, comma bool) ([]byte, error) {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = append(appendName(dst, name), ':')
		switch v := all[name].(type) {
		case string:
			dst = appendName(dst, v)
		case bool:
			dst = strconv.AppendBool(dst, v)
		case int64:
			dst = strconv.AppendInt(dst, v, 10)
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return dst, edgewise.Errorf(opEncode, edgewise.Invalid, "parameter %q is %v, which JSON cannot carry", name, v)
			}
			dst = appendDouble(dst, v)
		default:
			return dst, edgewise.Errorf(opEncode, edgewise.Invalid,
				"parameter %q is a %T: want a string, int64, bool or float64", name, v)
		}
	}
	return dst, nil
}

// appendDouble appends a finite float so that it reads back as one and not as an integer.
func appendDouble(dst []byte, v float64) []byte {
	start := len(dst)
	dst = appendFloat(dst, v, 64)
	if !slices.ContainsFunc(dst[start:], func(ch byte) bool { return ch == '.' || ch == 'e' }) {
		dst = append(dst, ".0"...)
	}
	return dst
}
