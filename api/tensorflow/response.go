package tensorflow

import (
	"slices"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

const opEncode = "tensorflow.Encode"

// bytesSuffix ends the names of outputs whose strings are bytes, which go as base64.
const bytesSuffix = "_bytes"

// Answer is the answer to a request, before it is written.
type Answer struct {
	rows    bool
	count   int  // rows
	whole   bool // the one row has the whole outputs
	outputs []edgewise.Tensor
	writers []*kserve.Writer
}

// Answer begins to write an answer. Errors: Invalid for outputs that have no rows, Internal for outputs that are not
// well-formed.
func (r *Request) Answer(resp *edgewise.Response) (*Answer, error) {
	a := &Answer{rows: r.Rows, count: r.count, whole: !r.batched, outputs: resp.Outputs}
	for i := range resp.Outputs {
		out := &resp.Outputs[i]
		w, err := kserve.Write(out, strings.HasSuffix(out.Name, bytesSuffix))
		if err != nil {
			return nil, edgewise.About(resp.Model, err)
		}
		a.writers = append(a.writers, w)
		if r.Rows && r.batched && (len(out.Shape) == 0 || out.Shape[0] != int64(r.count)) {
			return nil, edgewise.About(resp.Model, edgewise.Errorf(opEncode, edgewise.Invalid,
				"Tensor name: %s has shape %v, which is not one row for each of %d instances: send 'inputs' instead of 'instances'",
				out.Name, out.Shape, r.count))
		}
	}
	return a, nil
}

// Size estimates the bytes of the answer.
func (a *Answer) Size() int64 {
	size := 64
	for i, w := range a.writers {
		size += w.Size() + a.count*(8+len(a.outputs[i].Name))
	}
	return int64(size)
}

// Append appends the answer: "predictions" is a list with a value for each row, "outputs" a whole tensor; where there
// are several outputs, objects with their names.
func (a *Answer) Append(dst []byte) []byte {
	if !a.rows {
		dst = append(dst, `{"outputs":`...)
		return append(a.appendRow(dst, true), '}')
	}
	dst = append(dst, `{"predictions":[`...)
	for i := range a.count {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = a.appendRow(dst, a.whole)
	}
	return append(dst, "]}"...)
}

// appendRow appends the next row of each output, or the whole of each.
func (a *Answer) appendRow(dst []byte, whole bool) []byte {
	if len(a.outputs) != 1 {
		dst = append(dst, '{')
	}
	for i, out := range a.outputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		if len(a.outputs) != 1 {
			dst = append(kserve.AppendString(dst, out.Name), ':')
		}
		shape := out.Shape
		if !whole {
			shape = shape[1:]
		}
		dst = a.writers[i].Append(dst, shape)
	}
	if len(a.outputs) != 1 {
		dst = append(dst, '}')
	}
	return dst
}

// AppendClasses appends the answer to a classification: for each example a list of pairs of label and score, in the
// order of the classes. The labels are the output "classes", or labels(output), or the number of the class. Errors:
// Invalid for a model whose outputs are not scores, Internal for outputs that are not well-formed.
func (r *Request) AppendClasses(dst []byte, resp *edgewise.Response, labels func(output string) []string) ([]byte, error) {
	scores, err := r.numbers(resp, "scores")
	if err != nil {
		return dst, err
	}
	named, err := r.classes(resp, scores)
	if err != nil {
		return dst, err
	}
	var fixed []string
	if named == nil && labels != nil {
		fixed = labels(scores.Name)
	}
	w, err := kserve.Write(scores, false)
	if err != nil {
		return dst, edgewise.About(resp.Model, err)
	}
	each := elements(scores) / int64(r.count)
	body := append(dst, `{"results":[`...)
	for row := range r.count {
		if row > 0 {
			body = append(body, ',')
		}
		body = append(body, '[')
		for i := range each {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(body, '[')
			switch {
			case named != nil:
				body = kserve.AppendString(body, named[int64(row)*each+i])
			case i < int64(len(fixed)) && fixed[i] != "":
				body = kserve.AppendString(body, fixed[i])
			default:
				body = append(strconv.AppendInt(append(body, '"'), i, 10), '"')
			}
			body = append(w.Append(append(body, ','), nil), ']')
		}
		body = append(body, ']')
	}
	return append(body, "]}"...), nil
}

// classes returns the labels in the output "classes", one for each score; nil without that output.
func (r *Request) classes(resp *edgewise.Response, scores *edgewise.Tensor) ([]string, error) {
	at := slices.IndexFunc(resp.Outputs, func(t edgewise.Tensor) bool { return t.Name == "classes" && t.Type == edgewise.Bytes })
	if at < 0 {
		return nil, nil
	}
	var list []string
	for element := range edgewise.Elements(resp.Outputs[at].Data) {
		list = append(list, string(element))
	}
	if int64(len(list)) != elements(scores) {
		return nil, edgewise.About(resp.Model, edgewise.Errorf(opEncode, edgewise.Invalid,
			"output 'classes' has %d labels for %d scores", len(list), elements(scores)))
	}
	return list, nil
}

// AppendValues appends the answer to a regression: a number for each example. Errors: Invalid for a model whose output is
// not one number for each, Internal for outputs that are not well-formed.
func (r *Request) AppendValues(dst []byte, resp *edgewise.Response) ([]byte, error) {
	out, err := r.numbers(resp, "outputs")
	if err != nil {
		return dst, err
	}
	if n := elements(out); n != int64(r.count) {
		return dst, edgewise.About(resp.Model, edgewise.Errorf(opEncode, edgewise.Invalid,
			"output '%s' has %d numbers for %d examples: a regression has one for each", out.Name, n, r.count))
	}
	w, err := kserve.Write(out, false)
	if err != nil {
		return dst, edgewise.About(resp.Model, err)
	}
	return append(w.Append(append(dst, `{"results":`...), edgewise.Shape{int64(r.count)}), '}'), nil
}

// numbers returns the output of that name, or else the only one of floating-point numbers. It has as many elements for
// each row.
func (r *Request) numbers(resp *edgewise.Response, name string) (*edgewise.Tensor, error) {
	var found *edgewise.Tensor
	for i := range resp.Outputs {
		out := &resp.Outputs[i]
		switch {
		case !out.Type.IsFloat():
		case out.Name == name:
			return r.divided(resp, out)
		case found != nil:
			return nil, edgewise.About(resp.Model, edgewise.Errorf(opEncode, edgewise.Invalid,
				"the model has several outputs of numbers, '%s' and '%s' among them, and none that is called '%s': use :predict",
				found.Name, out.Name, name))
		default:
			found = out
		}
	}
	if found == nil {
		return nil, edgewise.About(resp.Model, edgewise.Errorf(opEncode, edgewise.Invalid,
			"the model has no output of floating-point numbers: use :predict"))
	}
	return r.divided(resp, found)
}

func (r *Request) divided(resp *edgewise.Response, out *edgewise.Tensor) (*edgewise.Tensor, error) {
	if n := elements(out); n%int64(r.count) != 0 || r.batched && (len(out.Shape) == 0 || out.Shape[0] != int64(r.count)) {
		return nil, edgewise.About(resp.Model, edgewise.Errorf(opEncode, edgewise.Invalid,
			"output '%s' has shape %v, which is not one row for each of %d examples", out.Name, out.Shape, r.count))
	}
	return out, nil
}

func elements(t *edgewise.Tensor) int64 {
	n, _ := t.Shape.Elements()
	return n
}
