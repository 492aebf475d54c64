package wire

import (
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edgewise-ai/edgewise"
)

const (
	opDecode = "wire.Parse"
	opEncode = "wire.Encode"
)

// field is one field of a message on the wire.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64 // of a varint or a fixed number
	bytes  []byte // of a string, bytes or a message; aliases the message
}

// is tells whether f is the field number in the form kind. A known field in another form is skipped, as an unknown one.
func (f field) is(number protowire.Number, kind protowire.Type) bool {
	return f.number == number && f.kind == kind
}

// fields calls visit for every field of a message, in order. Errors: Invalid, and those of visit.
func fields(message []byte, visit func(f field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 || number > protowire.MaxValidNumber {
			return malformed(n)
		}
		message = message[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(message)
			f.value = uint64(v)
		case protowire.Fixed64Type:
			f.value, n = protowire.ConsumeFixed64(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return malformed(n)
		}
		if err := visit(f); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// malformed makes an error of what protowire returned.
func malformed(n int) error {
	why := fmt.Errorf("a field number is out of range")
	if n < 0 {
		why = protowire.ParseError(n)
	}
	return invalid("the message is not well-formed: %w", why)
}

// text returns the string in b. what names it and limit bounds its bytes; 0: no bound.
func text(what string, b []byte, limit int) (string, error) {
	if limit > 0 && len(b) > limit {
		return "", tooLarge("%s has %d bytes, at most %d are allowed", what, len(b), limit)
	}
	if !utf8.Valid(b) {
		return "", invalid("%s is not valid UTF-8", what)
	}
	return string(b), nil
}

func invalid(format string, args ...any) error {
	return edgewise.Errorf(opDecode, edgewise.Invalid, format, args...)
}

func tooLarge(format string, args ...any) error {
	return edgewise.Errorf(opDecode, edgewise.TooLarge, format, args...)
}
