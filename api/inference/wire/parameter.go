package wire

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edgewise-ai/edgewise/api/kserve"
)

// finalResponse is the one parameter of the reserved ones that a client may set.
const finalResponse = "triton_enable_empty_final_response"

// parameterEntry reads one entry of a map of parameters. The value is a bool, int64, string, float64 or uint64; nil
// when the entry has none.
func parameterEntry(entry []byte) (key []byte, value any, err error) {
	err = fields(entry, func(f field) error {
		switch {
		case f.is(1, protowire.BytesType):
			key = f.bytes
		case f.is(2, protowire.BytesType):
			return fields(f.bytes, func(choice field) error {
				v, err := parameterChoice(choice)
				if v != nil {
					value = v
				}
				return err
			})
		}
		return nil
	})
	return key, value, err
}

// parameterChoice reads one field of an InferParameter.
func parameterChoice(f field) (any, error) {
	switch {
	case f.is(1, protowire.VarintType):
		return protowire.DecodeBool(f.value), nil
	case f.is(2, protowire.VarintType):
		return int64(f.value), nil
	case f.is(3, protowire.BytesType):
		return text("the value of a parameter", f.bytes, 0)
	case f.is(4, protowire.Fixed64Type):
		return math.Float64frombits(f.value), nil
	case f.is(5, protowire.VarintType):
		return f.value, nil
	}
	return nil, nil
}

// parameter reads one parameter of the request: into its field where the protocol knows it, else into Parameters.
func (r *Request) parameter(entry []byte, lim kserve.Limits) error {
	raw, value, err := parameterEntry(entry)
	if err != nil {
		return err
	}
	key, err := text("the name of a parameter", raw, lim.MaxName)
	if err != nil {
		return err
	}
	switch key {
	case "sequence_id":
		return r.sequenceID(value)
	case "sequence_start":
		return flag(key, value, &r.Sequence.Start)
	case "sequence_end":
		return flag(key, value, &r.Sequence.End)
	case finalResponse:
		return flag(key, value, &r.FinalResponse)
	case "priority":
		r.Priority, err = count(key, value)
		return err
	case "timeout":
		us, err := count(key, value)
		r.Timeout = time.Duration(min(us, math.MaxInt64/1000)) * time.Microsecond
		return err
	}
	if strings.HasPrefix(key, "triton_") {
		return invalid("parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys "+
			"starting with 'triton_' are allowed: %s", finalResponse)
	}
	return r.custom(key, value)
}

func (r *Request) custom(key string, value any) error {
	switch v := value.(type) {
	case nil:
		return invalid("parameter %q has no value: want bool_param, int64_param, string_param, double_param or uint64_param",
			key)
	case uint64:
		value = float64(v)
		if v <= math.MaxInt64 {
			value = int64(v)
		}
	}
	if r.Parameters == nil {
		r.Parameters = make(map[string]any)
	}
	r.Parameters[key] = value
	return nil
}

func (r *Request) sequenceID(value any) error {
	r.Sequence.ID, r.Sequence.Name = 0, ""
	switch v := value.(type) {
	case int64:
		r.Sequence.ID = uint64(v)
	case uint64:
		r.Sequence.ID = v
	case string:
		r.Sequence.Name = v
	default:
		return wrongKind("sequence_id", "int64_param, uint64_param or string_param")
	}
	return nil
}

func flag(key string, value any, to *bool) error {
	v, ok := value.(bool)
	if !ok {
		return wrongKind(key, "bool_param")
	}
	*to = v
	return nil
}

// count reads a parameter that counts something.
func count(key string, value any) (uint64, error) {
	switch v := value.(type) {
	case uint64:
		return v, nil
	case int64:
		if v < 0 {
			return 0, invalid("invalid value %d for '%s' parameter, expected value to be >= 0", v, key)
		}
		return uint64(v), nil
	}
	return 0, wrongKind(key, "int64_param or uint64_param")
}

func wrongKind(key, want string) error {
	return invalid("invalid value type for '%s' parameter, expected %s.", key, want)
}

// tensorParameters are the parameters of an input or an output that say where its bytes are or what is wanted of it.
// The others are ignored.
type tensorParameters struct {
	limit          int // on their number
	seen           int
	place          kserve.Place
	sized, offset  bool // the place has a size; an offset
	named          bool // the place has a region
	classification int64
	wrong          error // the first that is wrong
}

func (p *tensorParameters) read(entry []byte) error {
	if p.seen++; p.seen > p.limit {
		return tooLarge("a tensor has more than %d parameters", p.limit)
	}
	raw, value, err := parameterEntry(entry)
	if err != nil {
		return err
	}
	key, err := text("the name of a parameter", raw, 0)
	if err != nil {
		return err
	}
	switch key {
	case "shared_memory_region":
		p.named = true
		var ok bool
		if p.place.Region, ok = value.(string); !ok {
			p.fault(wrongKind(key, "string_param"))
		}
	case "shared_memory_byte_size":
		p.sized, p.place.Size = true, p.number(key, value, 0)
	case "shared_memory_offset":
		p.offset, p.place.Offset = true, p.number(key, value, 0)
	case "classification":
		p.classification = p.number(key, value, 1)
	}
	return nil
}

// number returns the value of a parameter that is an int64 from least on.
func (p *tensorParameters) number(key string, value any, least int64) int64 {
	n, ok := value.(int64)
	switch {
	case !ok:
		p.fault(wrongKind(key, "int64_param"))
	case n < least:
		p.fault(invalid("invalid value %d for '%s' parameter, expected value to be >= %d", n, key, least))
	}
	return n
}

func (p *tensorParameters) fault(err error) {
	if p.wrong == nil {
		p.wrong = err
	}
}

// check returns what is wrong with the parameters of a tensor. what is "input" or "output".
func (p *tensorParameters) check(what, name string) error {
	switch {
	case p.wrong != nil:
		return kserve.TensorErrorf(name, "%s '%s': %w", what, name, p.wrong)
	case p.named && p.place.Region == "":
		return kserve.TensorErrorf(name, "%s '%s': 'shared_memory_region' names none", what, name)
	case p.named && !p.sized:
		return kserve.TensorErrorf(name, "%s '%s': 'shared_memory_byte_size' is missing", what, name)
	case !p.named && (p.sized || p.offset):
		return kserve.TensorErrorf(name, "%s '%s': 'shared_memory_region' is missing", what, name)
	}
	return nil
}
