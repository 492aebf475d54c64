package wire

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// The numbers of ModelInferRequest's fields.
const (
	requestModelName    = 1
	requestModelVersion = 2
	requestID           = 3
	requestParameters   = 4
	requestInputs       = 5
	requestOutputs      = 6
	requestRaw          = 7
)

// Request is a ModelInferRequest. Its tensors alias the message that it was read from where the message has their bytes
// in the runtime's form: in raw_input_contents, and in packed fp32_contents and fp64_contents. Strings are copied.
type Request struct {
	kserve.Inference
	Label         string // names the version in place of Model.Version, which is 0 then; empty: no label does
	FinalResponse bool   // responses carry a parameter that marks the last one
}

// message is a ModelInferRequest of which only the frame has been read.
type message struct {
	model, version, id               []byte
	parameters, inputs, outputs, raw [][]byte
}

// Parse reads a message, of which all raw_input_contents may be apart: they are tensors then, and body is what stands
// before them. It reads within the limits MaxTensors, MaxName, MaxParameters and MaxDecoded; the last bounds what typed
// contents take after conversion. It checks what can be checked without the model. The request is never nil; after an
// error it has the ID, where there was one to read, and nothing else to rely on.
//
// Errors: Invalid; TooLarge for a bound of lim; NotFound for a name that no model can have. They carry the model, and a
// kserve.TensorError where one tensor is at fault.
func Parse(body []byte, tensors [][]byte, lim kserve.Limits) (*Request, error) {
	lim = lim.WithDefaults()
	r := &Request{}
	m, err := frame(body, lim)
	if m.raw = append(m.raw, tensors...); err == nil {
		err = m.check(lim)
	}
	if id, bad := text("the id of the request", m.id, lim.MaxName); bad == nil {
		r.ID = id
	} else if err == nil {
		err = bad
	}
	if err == nil {
		err = r.read(m, lim)
	}
	if err != nil {
		err = edgewise.About(r.Model, err)
	}
	return r, err
}

// frame splits a message into its fields. After an error it has the fields before the error.
func frame(body []byte, lim kserve.Limits) (message, error) {
	var m message
	err := fields(body, func(f field) error {
		if f.kind != protowire.BytesType {
			return nil
		}
		switch f.number {
		case requestModelName:
			m.model = f.bytes
		case requestModelVersion:
			m.version = f.bytes
		case requestID:
			m.id = f.bytes
		case requestParameters:
			m.parameters = append(m.parameters, f.bytes)
		case requestInputs:
			m.inputs = append(m.inputs, f.bytes)
		case requestOutputs:
			m.outputs = append(m.outputs, f.bytes)
		case requestRaw:
			m.raw = append(m.raw, f.bytes)
		}
		return m.check(lim)
	})
	return m, err
}

func (m *message) check(lim kserve.Limits) error {
	switch {
	case len(m.parameters) > lim.MaxParameters:
		return tooLarge("the request has more than %d parameters", lim.MaxParameters)
	case len(m.inputs)+len(m.outputs) > lim.MaxTensors || len(m.raw) > lim.MaxTensors:
		return tooLarge("the request has more than %d inputs and outputs", lim.MaxTensors)
	}
	return nil
}

// ModelOf returns the model that the beginning of a message names, as ParseModel reads it. Errors: Invalid, NotFound.
func ModelOf(beginning []byte) (id edgewise.ModelID, label string, err error) {
	var name, version []byte
	err = fields(beginning, func(f field) error {
		switch {
		case f.is(requestModelName, protowire.BytesType):
			name = f.bytes
		case f.is(requestModelVersion, protowire.BytesType):
			version = f.bytes
		}
		return nil
	})
	if err != nil {
		return edgewise.ModelID{}, "", err
	}
	return ParseModel(string(name), string(version))
}

func (r *Request) read(m message, lim kserve.Limits) error {
	name, err := text("the name of the model", m.model, 0)
	if err != nil {
		return err
	}
	version, err := text("the version of the model", m.version, 0)
	if err != nil {
		return err
	}
	if r.Model, r.Label, err = ParseModel(name, version); err != nil {
		return err
	}
	for _, entry := range m.parameters {
		if err := r.parameter(entry, lim); err != nil {
			return err
		}
	}
	if err := r.readOutputs(m.outputs, lim); err != nil {
		return err
	}
	return r.readInputs(m, lim)
}

// ParseModel reads the name and the version of a model as requests give them; an empty version is the one the policy
// chooses, and one that may be a label is returned as that. Errors: NotFound for a name that no model can have, Invalid
// for a version that is neither a number nor a label.
func ParseModel(name, version string) (id edgewise.ModelID, label string, err error) {
	if edgewise.CheckName(name) != nil {
		return edgewise.ModelID{}, "", edgewise.Errorf("wire.ParseModel", edgewise.NotFound,
			"Request for unknown model: '%.200s' is not found", name)
	}
	id = edgewise.ModelID{Name: name}
	if version == "" {
		return id, "", nil
	}
	if edgewise.CheckLabel(version) == nil {
		return id, version, nil
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || n <= 0 {
		return id, "", NoVersion(version)
	}
	id.Version = n
	return id, "", nil
}

// NoVersion is the error about a version that is neither a number nor a label of its model.
func NoVersion(version string) error {
	return edgewise.Errorf("wire.NoVersion", edgewise.Invalid, "failed to get model version from specified version "+
		"string '%.40s': want a number above 0 or a label of the model", version)
}

// readOutputs reads the outputs that the client names.
func (r *Request) readOutputs(messages [][]byte, lim kserve.Limits) error {
	if len(messages) == 0 {
		return nil
	}
	r.Outputs, r.Answers = make([]string, 0, len(messages)), make([]kserve.Answer, 0, len(messages))
	for _, m := range messages {
		var name []byte
		params := tensorParameters{limit: lim.MaxParameters}
		err := fields(m, func(f field) error {
			switch {
			case f.is(1, protowire.BytesType):
				name = f.bytes
			case f.is(2, protowire.BytesType):
				return params.read(f.bytes)
			}
			return nil
		})
		if err != nil {
			return err
		}
		output, err := text("the name of an output", name, lim.MaxName)
		if err != nil {
			return err
		}
		if err := params.check("output", output); err != nil {
			return err
		}
		answer := kserve.Answer{
			Name: output, Classification: int(min(params.classification, math.MaxInt32)), Shared: params.place,
		}
		if err := r.AddOutput(answer); err != nil {
			return err
		}
	}
	return nil
}
