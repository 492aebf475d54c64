// Package torchserve holds the bodies of TorchServe's inference interface. There a model's handler decides what a body
// means; here the model's inputs do: a file is the bytes or the array of the one input, JSON has a value for each input,
// and so have the parts of a form.
//
// Source: TorchServe's "Inference API" and "Custom handlers".
package torchserve

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/api/npy"
)

const (
	opDecode = "torchserve.Decode"
	opEncode = "torchserve.Encode"
)

// maxEmpty bounds the strings of no bytes in a NumPy array.
const maxEmpty = 1 << 20

// Health is the body of an answer about the server's health.
type Health struct {
	Status string `json:"status"` // Healthy or Unhealthy
}

// Fault is the body of an answer that is an error.
type Fault struct {
	Code    int    `json:"code"` // of HTTP
	Type    string `json:"type"`
	Message string `json:"message"`
}

// NewFault describes an error.
func NewFault(status int, body kserve.ErrorBody) Fault {
	f := Fault{Code: status, Message: body.Error}
	switch {
	case status == 404:
		f.Type = "ModelNotFoundException"
	case status == 401 || status == 403:
		f.Type = "InvalidKeyException"
	case status == 413:
		f.Type = "RequestEntityTooLargeException"
	case status == 503 || status == 429 || status == 504:
		f.Type = "ServiceUnavailableException"
	case status >= 500:
		f.Type = "InternalServerException"
	default:
		f.Type = "BadRequestException"
	}
	return f
}

// Request is a request decoded from a body. Its memory is the InferRequest's.
type Request struct {
	*kserve.InferRequest
	model  *edgewise.Model
	single bool // the request is one row, for which a batch dimension was added
}

// Decode decodes a request to model m by the type of its body. body may be changed. Errors: Invalid, TooLarge.
func Decode(d *kserve.Decoder, id edgewise.ModelID, m *edgewise.Model, contentType string, body []byte) (*Request, error) {
	r := &Request{model: m}
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = ""
	}
	in := kserve.OnlyInput(m)
	switch {
	case kind == "application/json", kind != "multipart/form-data" && in != nil && !takesFile(in) && looksLikeJSON(body):
		err = r.json(d, id, body)
	case kind == "multipart/form-data":
		err = r.files(d, id, func() error { return r.form(body, parameters["boundary"]) })
	case in == nil:
		err = invalid("the model has the inputs %s: send JSON with a value for each, or a form with a part for each", names(m))
	default:
		err = r.files(d, id, func() error { return r.file(in, body) })
	}
	if err != nil {
		return nil, edgewise.About(id, err)
	}
	return r, nil
}

// files reads a request whose inputs are files.
func (r *Request) files(d *kserve.Decoder, id edgewise.ModelID, add func() error) error {
	r.InferRequest = d.Files(id)
	err := add()
	if err != nil {
		r.Release()
	}
	return err
}

// file adds an input that is a file.
func (r *Request) file(in *edgewise.ModelInput, body []byte) error {
	if !takesFile(in) && bytes.HasPrefix(body, []byte(npy.Magic)) {
		return r.array(in, body)
	}
	if in.DataType == edgewise.Bytes && !takesFile(in) {
		return kserve.TensorErrorf(in.Name, "input '%s' has shape %v, not one element: send JSON, or a NumPy array", in.Name, in.Dims)
	}
	if size, fixed := bytesOf(in); in.DataType != edgewise.Bytes && fixed && int64(len(body)) != size {
		return kserve.TensorErrorf(in.Name, "input '%s' is %v%v, which takes %d bytes, and the body has %d: send JSON, a NumPy "+
			"array or those bytes; for a picture or a sound as a file, put a step in front of the model that reads it (an ensemble)",
			in.Name, in.DataType, in.Dims, size, len(body))
	}
	r.single = true
	return r.AddFile(in, r.model.MaxBatchSize > 0, body)
}

// array adds an input that is a NumPy array.
func (r *Request) array(in *edgewise.ModelInput, body []byte) error {
	t, err := npy.Decode(body, in.DataType, maxEmpty)
	if err != nil {
		return kserve.TensorErrorf(in.Name, "input '%s' wants %v%v: %w", in.Name, in.DataType, in.Dims, err)
	}
	t.Name, t.Shape = in.Name, r.fit(spec(r.model, in.Name), t.Shape)
	return r.AddInput(t, kserve.Place{})
}

// form adds an input for each part of a form: of that name, or the only one.
func (r *Request) form(body []byte, boundary string) error {
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return invalid("the form is not readable: %w", err)
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return invalid("the form is not readable: %w", err)
		}
		in := r.input(part.FormName())
		if in == nil {
			return invalid("the form has a part '%.100s', and the model the inputs %s", part.FormName(), names(r.model))
		}
		if err := r.file(in, content); err != nil {
			return err
		}
	}
	if len(r.Inputs) == 0 {
		return invalid("the form has no parts")
	}
	return nil
}

// input returns the input of that name, or else the only one, as clients of TorchServe call it "data" or "body"; nil for
// none.
func (r *Request) input(name string) *edgewise.ModelInput {
	for i := range r.model.Input {
		if r.model.Input[i].Name == name {
			return &r.model.Input[i]
		}
	}
	if name == "data" || name == "body" || name == "" {
		return kserve.OnlyInput(r.model)
	}
	return nil
}

// json reads JSON: an object with the inputs, or the value of the only one.
func (r *Request) json(d *kserve.Decoder, id edgewise.ModelID, body []byte) error {
	var values []*kserve.Values
	req, err := d.Nested(id, body, func(n *kserve.Nested) error {
		add := func(name string) error {
			in := r.input(name)
			if in == nil {
				return invalid("the body has '%.100s', and the model the inputs %s", name, names(r.model))
			}
			if slices.ContainsFunc(values, func(v *kserve.Values) bool { return v.Spec().Name == in.Name }) {
				return kserve.TensorErrorf(in.Name, "input '%s' is there twice", in.Name)
			}
			v := kserve.Of(spec(r.model, in.Name))
			values = append(values, v)
			return n.Find(v, func() string { return in.Name })
		}
		err := error(nil)
		if n.Next() == '{' && !n.Single("b64") {
			err = n.Object(func(name []byte) error { return add(string(name)) })
		} else {
			err = add("")
		}
		for i := 0; i < len(values) && err == nil; i++ {
			err = n.Read(values[i], r.fit(values[i].Spec(), values[i].Shape()))
		}
		return err
	})
	r.InferRequest = req
	return err
}

// fit returns the shape of a value in the shape of its input: a batch dimension may be left out, and dimensions of one
// at the end.
func (r *Request) fit(want edgewise.Spec, shape edgewise.Shape) edgewise.Shape {
	if want.Shape.Accepts(shape) {
		return shape
	}
	for _, front := range []edgewise.Shape{{1}, {}} {
		full := append(front, shape...)
		for len(full) < len(want.Shape) {
			full = append(full, 1)
		}
		if want.Shape.Accepts(full) {
			r.single = r.single || len(front) > 0
			return full
		}
	}
	return shape
}

// spec returns the input of a model as requests have it.
func spec(m *edgewise.Model, name string) edgewise.Spec {
	specs := m.Inputs()
	return specs[slices.IndexFunc(specs, func(s edgewise.Spec) bool { return s.Name == name })]
}

// takesFile tells whether an input is one element of bytes, which may be a file as it is.
func takesFile(in *edgewise.ModelInput) bool {
	return in.DataType == edgewise.Bytes && !slices.ContainsFunc(in.Dims, func(d int64) bool { return d > 1 || d == 0 })
}

// bytesOf returns how many bytes an input has, where its dimensions are fixed.
func bytesOf(in *edgewise.ModelInput) (size int64, fixed bool) {
	n, ok := in.Dims.Elements()
	return n * in.DataType.Size(), ok
}

// looksLikeJSON tells whether a body without a type is JSON.
func looksLikeJSON(body []byte) bool {
	text := bytes.TrimLeft(body, " \t\r\n")
	return len(text) > 0 && (text[0] == '[' || text[0] == '{')
}

// names lists the inputs of a model, for messages.
func names(m *edgewise.Model) string {
	list := make([]string, len(m.Input))
	for i, in := range m.Input {
		list[i] = in.Name
	}
	return strings.Join(list, ", ")
}

func invalid(format string, args ...any) error {
	return edgewise.Errorf(opDecode, edgewise.Invalid, format, args...)
}
