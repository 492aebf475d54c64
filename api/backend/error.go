package backend

import "github.com/edgewise-ai/edgewise"

// Code says what kind of error there was, in Triton's kinds.
type Code uint8

// The codes of errors. Others count as Unknown.
const (
	Unknown       Code = 1
	InternalError Code = 2
	NotFound      Code = 3
	InvalidArg    Code = 4
	Unavailable   Code = 5
	Unsupported   Code = 6
	AlreadyExists Code = 7
	Cancelled     Code = 8
)

// Error is a failure on the wire.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// codes gives each kind of error its code.
var codes = map[edgewise.Kind]Code{
	edgewise.Invalid: InvalidArg, edgewise.NotFound: NotFound, edgewise.Exists: AlreadyExists,
	edgewise.Unavailable: Unavailable, edgewise.Busy: Unavailable, edgewise.Exhausted: Unavailable,
	edgewise.Unsupported: Unsupported, edgewise.Canceled: Cancelled, edgewise.Deadline: Cancelled,
	edgewise.TooLarge: InvalidArg,
}

// kinds gives each code its kind of error.
var kinds = map[Code]edgewise.Kind{
	NotFound: edgewise.NotFound, InvalidArg: edgewise.Invalid, Unavailable: edgewise.Unavailable,
	Unsupported: edgewise.Unsupported, AlreadyExists: edgewise.Exists, Cancelled: edgewise.Canceled,
}

// ErrorOf returns err as it crosses the wire, nil for nil.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	if own, ok := err.(*Error); ok {
		return own
	}
	code, ok := codes[edgewise.KindOf(err)]
	if !ok {
		code = InternalError
	}
	return &Error{code, err.Error()}
}

// Kind returns the kind of an error that crossed the wire.
func (e *Error) Kind() edgewise.Kind { return kinds[e.Code] }

// maxMessage bounds the message of an error, in bytes.
const maxMessage = 64 << 10

func appendError(b []byte, e *Error) []byte {
	return appendText(append(b, byte(e.Code)), e.Message[:min(len(e.Message), maxMessage)])
}

func (c *cursor) error() *Error { return &Error{Code(c.u8()), c.text()} }
