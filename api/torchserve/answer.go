package torchserve

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/scalar"
)

const (
	typeJSON = "application/json"
	typeText = "text/plain; charset=utf-8"
	typeFile = "application/octet-stream"
)

// best is how many labels an answer of a classifier has: as many as TorchServe's image_classifier.
const best = 5

// Size estimates the bytes of the answer.
func (r *Request) Size(resp *edgewise.Response) int64 {
	const overhead, growth = 1 << 10, 6
	size := int64(overhead)
	for i := range resp.Outputs {
		size += growth*int64(len(resp.Outputs[i].Data)) + int64(len(resp.Outputs[i].Name))
	}
	return size
}

// Append appends the answer: one output as its value, several as an object with their names; without the batch
// dimension where the request had none. An output with labels is an object with the best of them and their values, one
// element of bytes is the body as it is. Errors: Internal for outputs that are not well-formed.
func (r *Request) Append(dst []byte, resp *edgewise.Response, labels func(output string) []string) (
	body []byte, contentType string, err error,
) {
	if len(resp.Outputs) == 1 {
		out := &resp.Outputs[0]
		if err := out.Check(); err != nil {
			return dst, "", edgewise.About(resp.Model, edgewise.Errorf(opEncode, edgewise.Internal, "%w", err))
		}
		if n, _ := out.Shape.Elements(); out.Type == edgewise.Bytes && n == 1 {
			body = append(dst, out.Data[4:]...)
			return body, typeOf(body[len(dst):]), nil
		}
		if names := labels(out.Name); names != nil && out.Type.IsFloat() {
			return r.classes(dst, out, names), typeJSON, nil
		}
		body, err = r.value(dst, out)
		return body, typeJSON, about(resp, err)
	}
	body = append(dst, '{')
	for i := range resp.Outputs {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(kserve.AppendString(body, resp.Outputs[i].Name), ':')
		if body, err = r.value(body, &resp.Outputs[i]); err != nil {
			return dst, "", about(resp, err)
		}
	}
	return append(body, '}'), typeJSON, nil
}

func about(resp *edgewise.Response, err error) error {
	if err == nil {
		return nil
	}
	return edgewise.About(resp.Model, err)
}

// value appends the value of an output.
func (r *Request) value(dst []byte, out *edgewise.Tensor) ([]byte, error) {
	w, err := kserve.Write(out, false)
	if err != nil {
		return dst, err
	}
	return w.Append(dst, r.shape(out)), nil
}

// shape returns the shape of an output in the answer.
func (r *Request) shape(out *edgewise.Tensor) edgewise.Shape {
	if r.single && kserve.Batched(r.model) && len(out.Shape) > 0 && out.Shape[0] == 1 {
		return out.Shape[1:]
	}
	return out.Shape
}

// classes appends the best labels of each row.
func (r *Request) classes(dst []byte, out *edgewise.Tensor, labels []string) []byte {
	n, _ := out.Shape.Elements()
	rows := int64(1)
	if kserve.Batched(r.model) && len(out.Shape) > 0 {
		rows = out.Shape[0]
	}
	if rows == 1 && len(r.shape(out)) < len(out.Shape) {
		return appendBest(dst, out, 0, n, labels)
	}
	dst = append(dst, '[')
	for row := range rows {
		if row > 0 {
			dst = append(dst, ',')
		}
		dst = appendBest(dst, out, row*(n/rows), n/rows, labels)
	}
	return append(dst, ']')
}

// appendBest appends an object with the best labels of n elements from start on. Of equal labels the best counts.
func appendBest(dst []byte, out *edgewise.Tensor, start, n int64, labels []string) []byte {
	size := out.Type.Size()
	data := out.Data[start*size : (start+n)*size]
	type class struct {
		index int64
		value float64
	}
	top := make([]class, 0, best+1)
	for i := range min(n, int64(len(labels))) {
		c := class{i, scalar.Float(out.Type, data[i*size:])}
		if math.IsNaN(c.value) || labels[i] == "" {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, c, func(a, b class) int {
			if a.value >= b.value {
				return -1
			}
			return 1
		})
		if slices.ContainsFunc(top[:at], func(t class) bool { return labels[t.index] == labels[i] }) {
			continue
		}
		top = slices.Insert(top, at, c)
		if twin := slices.IndexFunc(top[at+1:], func(t class) bool { return labels[t.index] == labels[i] }); twin >= 0 {
			top = slices.Delete(top, at+1+twin, at+2+twin)
		}
		top = top[:min(len(top), best)]
	}
	dst = append(dst, '{')
	for i, c := range top {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(kserve.AppendString(dst, labels[c.index]), ':')
		one := edgewise.Tensor{Type: out.Type, Shape: edgewise.Shape{}, Data: data[c.index*size : (c.index+1)*size]}
		if w, err := kserve.Write(&one, false); err == nil { // it was checked
			dst = w.Append(dst, nil)
		}
	}
	return append(dst, '}')
}

// typeOf returns the type of a body that a model made: never one that a browser runs.
func typeOf(body []byte) string {
	trimmed := bytes.TrimSpace(body)
	switch found := http.DetectContentType(body); {
	case len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(body):
		return typeJSON
	case strings.HasPrefix(found, "image/"), strings.HasPrefix(found, "audio/"), strings.HasPrefix(found, "video/"):
		return found
	case utf8.Valid(body):
		return typeText
	}
	return typeFile
}
