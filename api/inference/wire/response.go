package wire

import (
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edgewise-ai/edgewise"
)

// The numbers of ModelInferResponse's fields, of its outputs' and of ModelStreamInferResponse's.
const (
	responseModelName    = 1
	responseModelVersion = 2
	responseID           = 3
	responseParameters   = 4
	responseOutputs      = 5
	responseRaw          = 6

	outputName     = 1
	outputDatatype = 2
	outputShape    = 3

	streamResponse = 2
)

// FinalParameter tells the client of a stream whether an answer is the last one to its request.
const FinalParameter = "triton_final_response"

// CopyBelow is the size in bytes below which the data of an output is copied into the message's head: that costs less
// than a piece of its own.
const CopyBelow = 4 << 10

// Form selects the message of a response.
type Form struct {
	Stream bool // ModelStreamInferResponse instead of ModelInferResponse
	Final  bool // with the parameter that calls the answer the last one to its request
	More   bool // with the parameter that says that others follow
	// Elsewhere tells whether the bytes of the output at a place of Outputs are left out of the message; nil: none are.
	Elsewhere func(output int) bool
}

// Piece is a part of a message. Pieces that are Borrowed alias the data of an output; the others are memory of their
// own.
type Piece struct {
	Bytes    []byte
	Borrowed bool
}

// Encode returns the message of an answer, in pieces: outputs from CopyBelow bytes on are not copied. Errors: Internal
// for an output that is not well-formed or a parameter that has no form.
func Encode(resp *edgewise.Response, form Form) ([]Piece, error) {
	// In front of the message is room for the field of a stream, which needs the length of the message.
	const wrapper = 1 + 10
	head, err := appendHead(make([]byte, wrapper, wrapper+headSize(resp)), resp, form)
	if err != nil {
		return nil, err
	}
	pieces := make([]Piece, 0, 2*len(resp.Outputs)+1)
	cuts := make([]int, 0, len(resp.Outputs)) // where in head the data of the borrowed outputs belongs
	borrowed := 0
	for i := range resp.Outputs {
		data := form.data(resp, i)
		head = protowire.AppendTag(head, responseRaw, protowire.BytesType)
		head = protowire.AppendVarint(head, uint64(len(data)))
		if len(data) < CopyBelow {
			head = append(head, data...)
			continue
		}
		cuts = append(cuts, len(head))
		borrowed += len(data)
	}
	start := wrapper
	if form.Stream {
		prefix := protowire.AppendTag(make([]byte, 0, wrapper), streamResponse, protowire.BytesType)
		prefix = protowire.AppendVarint(prefix, uint64(len(head)-wrapper+borrowed))
		start -= len(prefix)
		copy(head[start:], prefix)
	}
	for i := range resp.Outputs {
		if data := form.data(resp, i); len(data) >= CopyBelow {
			pieces = append(pieces, Piece{Bytes: head[start:cuts[0]]}, Piece{Bytes: data, Borrowed: true})
			start, cuts = cuts[0], cuts[1:]
		}
	}
	if start < len(head) {
		pieces = append(pieces, Piece{Bytes: head[start:]})
	}
	return pieces, nil
}

// data returns the bytes of an output that go into the message.
func (f Form) data(resp *edgewise.Response, output int) []byte {
	if f.Elsewhere != nil && f.Elsewhere(output) {
		return nil
	}
	return resp.Outputs[output].Data
}

// headSize estimates the bytes of everything but the borrowed outputs, rather too many than too few.
func headSize(resp *edgewise.Response) int {
	n := 64 + len(resp.ID) + len(resp.Model.Name) + 64*(len(resp.Parameters)+1)
	for i := range resp.Outputs {
		out := &resp.Outputs[i]
		n += 48 + len(out.Name) + 10*len(out.Shape)
		if len(out.Data) < CopyBelow {
			n += len(out.Data)
		}
	}
	return n
}

func appendHead(b []byte, resp *edgewise.Response, form Form) ([]byte, error) {
	b = appendString(b, responseModelName, resp.Model.Name)
	b = appendString(b, responseModelVersion, strconv.FormatInt(resp.Model.Version, 10))
	b = appendString(b, responseID, resp.ID)
	var entry []byte
	var ok bool
	for key, value := range resp.Parameters {
		if entry, ok = appendParameter(entry[:0], key, value); !ok {
			return nil, internal(resp, "response parameter %q has a value of type %T", key, value)
		}
		b = appendMessage(b, responseParameters, entry)
	}
	if form.Final || form.More {
		entry, _ = appendParameter(entry[:0], FinalParameter, form.Final)
		b = appendMessage(b, responseParameters, entry)
	}
	for i := range resp.Outputs {
		out := &resp.Outputs[i]
		if err := out.Check(); err != nil {
			return nil, internal(resp, "%w", err)
		}
		entry = appendString(entry[:0], outputName, out.Name)
		entry = appendString(entry, outputDatatype, out.Type.String())
		entry = appendShape(entry, out.Shape)
		b = appendMessage(b, responseOutputs, entry)
	}
	return b, nil
}

func internal(resp *edgewise.Response, format string, args ...any) error {
	err := edgewise.Errorf(opEncode, edgewise.Internal, format, args...)
	err.Model = resp.Model
	return err
}

// appendString appends a string field; the empty string is not sent.
func appendString(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
}

func appendMessage(b []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), message)
}

func appendShape(b []byte, shape edgewise.Shape) []byte {
	if len(shape) == 0 {
		return b
	}
	size := 0
	for _, d := range shape {
		size += protowire.SizeVarint(uint64(d))
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, outputShape, protowire.BytesType), uint64(size))
	for _, d := range shape {
		b = protowire.AppendVarint(b, uint64(d))
	}
	return b
}

// appendParameter appends an entry of a map of parameters. ok is false when the value has no form.
func appendParameter(b []byte, key string, value any) (entry []byte, ok bool) {
	v := make([]byte, 0, 16)
	switch x := value.(type) {
	case bool:
		v = protowire.AppendVarint(protowire.AppendTag(v, 1, protowire.VarintType), protowire.EncodeBool(x))
	case int64:
		v = protowire.AppendVarint(protowire.AppendTag(v, 2, protowire.VarintType), uint64(x))
	case string:
		v = protowire.AppendString(protowire.AppendTag(slices.Grow(v, len(x)), 3, protowire.BytesType), x)
	case float64:
		v = protowire.AppendFixed64(protowire.AppendTag(v, 4, protowire.Fixed64Type), math.Float64bits(x))
	default:
		return b, false
	}
	b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), key)
	return appendMessage(b, 2, v), true
}
