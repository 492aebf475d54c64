package kserve

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/edgewise-ai/edgewise"
)

// TensorError is an error about one tensor of a request.
type TensorError struct {
	Tensor string
	Err    error // the whole message; it names the tensor too
}

// Error returns the message.
func (e *TensorError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *TensorError) Unwrap() error { return e.Err }

// TensorErrorf makes an error of kind Invalid about one tensor, or about none when its name is not known yet.
func TensorErrorf(name, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if name != "" {
		err = &TensorError{Tensor: name, Err: err}
	}
	return &edgewise.Error{Op: opDecode, Kind: edgewise.Invalid, Err: err}
}

// ErrorBody is the body of every answer that is an error. Error is all that the protocol has; the other members let
// programs decide without reading it.
type ErrorBody struct {
	Error   string `json:"error"`
	Code    string `json:"code,omitempty"` // the name of the edgewise.Kind
	Model   string `json:"model,omitempty"`
	Version int64  `json:"version,omitempty"`
	Input   string `json:"input,omitempty"`  // the tensor that is wrong
	Reason  string `json:"reason,omitempty"` // for programs, such as "login_required"
	Field   string `json:"field,omitempty"`  // the member of the body that is wrong
	Limit   int64  `json:"limit,omitempty"`  // the bound that was crossed, in bytes or in a number of things
}

// NewErrorBody describes err, which is not nil.
func NewErrorBody(err error) ErrorBody {
	body := ErrorBody{Error: err.Error(), Code: edgewise.KindOf(err).String()}
	if e, ok := errors.AsType[*edgewise.Error](err); ok {
		body.Model, body.Version, body.Limit = e.Model.Name, e.Model.Version, e.Limit
		body.Reason, body.Field = e.Reason, e.Field
	}
	if e, ok := errors.AsType[*TensorError](err); ok {
		body.Input = e.Tensor
	}
	return body
}

// Err returns the error that the body describes. Where Code names no kind the HTTP status decides, so that errors of
// other servers of the protocol, and of proxies on the way, are classified too. op goes to Error.Op.
func (b ErrorBody) Err(op string, status int) *edgewise.Error {
	text := b.Error
	if text == "" {
		text = http.StatusText(status)
	}
	var err error = errors.New(text)
	if b.Input != "" {
		err = &TensorError{Tensor: b.Input, Err: err}
	}
	return &edgewise.Error{
		Op: op, Kind: b.kind(status), Model: edgewise.ModelID{Name: b.Model, Version: b.Version},
		Limit: b.Limit, Reason: b.Reason, Field: b.Field, Err: err,
	}
}

func (b ErrorBody) kind(status int) edgewise.Kind {
	for _, k := range edgewise.Kinds() {
		if k.String() == b.Code {
			return k
		}
	}
	if k, ok := kinds[status]; ok {
		return k
	}
	if status >= 400 && status < 500 {
		return edgewise.Invalid
	}
	return edgewise.Internal
}

// kinds are those of answers without a code, by their HTTP status.
var kinds = map[int]edgewise.Kind{
	http.StatusUnauthorized:          edgewise.Unauthenticated,
	http.StatusForbidden:             edgewise.Denied,
	http.StatusNotFound:              edgewise.NotFound,
	http.StatusConflict:              edgewise.Conflict,
	http.StatusRequestEntityTooLarge: edgewise.TooLarge,
	http.StatusTooManyRequests:       edgewise.Busy,
	http.StatusServiceUnavailable:    edgewise.Unavailable,
	http.StatusBadGateway:            edgewise.Unavailable,
	http.StatusGatewayTimeout:        edgewise.Deadline,
	http.StatusRequestTimeout:        edgewise.Deadline,
	http.StatusNotImplemented:        edgewise.Unsupported,
	http.StatusMethodNotAllowed:      edgewise.Unsupported,
	http.StatusInsufficientStorage:   edgewise.Exhausted,
}

// Default bounds of a body. Each is a field of Limits.
const (
	DefaultMaxJSON       = 64 << 20  // bytes of the JSON part, and of a body that is one raw tensor
	DefaultMaxDecoded    = 128 << 20 // bytes of all tensors carried in JSON, after conversion
	DefaultMaxTensors    = 1024      // inputs and outputs together
	DefaultMaxDepth      = 100       // arrays and objects inside one another
	DefaultMaxName       = 1024      // bytes of a tensor's name, a parameter's name or an id
	DefaultMaxParameters = 256       // custom parameters of a request
)

// Limits bounds what a body may hold. A field that is 0 stands for its default.
type Limits struct {
	MaxJSON       int64
	MaxDecoded    int64
	MaxTensors    int
	MaxDepth      int
	MaxName       int
	MaxParameters int
}

// WithDefaults returns l with every zero field replaced by its default.
func (l Limits) WithDefaults() Limits {
	l.MaxJSON = or(l.MaxJSON, DefaultMaxJSON)
	l.MaxDecoded = or(l.MaxDecoded, DefaultMaxDecoded)
	l.MaxTensors = or(l.MaxTensors, DefaultMaxTensors)
	l.MaxDepth = or(l.MaxDepth, DefaultMaxDepth)
	l.MaxName = or(l.MaxName, DefaultMaxName)
	l.MaxParameters = or(l.MaxParameters, DefaultMaxParameters)
	return l
}

func or[T int | int64](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

func invalid(format string, args ...any) error {
	return edgewise.Errorf(opDecode, edgewise.Invalid, format, args...)
}

// tooLarge makes an error about a bound; limit is what it allows.
func tooLarge[T int | int64](limit T, format string, args ...any) error {
	e := edgewise.Errorf(opDecode, edgewise.TooLarge, format, args...)
	e.Limit = int64(limit)
	return e
}

const (
	opDecode = "kserve.Decode"
	opEncode = "kserve.Encode"
)
