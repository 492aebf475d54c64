package kserve

import "github.com/edgewise-ai/edgewise"

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
