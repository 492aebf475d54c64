package backend

import "encoding/binary"

// Flags of answers.
const (
	flagFinal = 1
	flagError = 2
	flagEmpty = 4
)

// Answer is what RESPONSE and REPLY have in common: one of the responses of a request.
type Answer struct {
	Final      bool   // no more will come
	Empty      bool   // it has no outputs because it says no more than Final
	Error      *Error // nil: none
	Parameters map[string]any
	Outputs    []Tensor
}

func (a *Answer) flags() byte {
	var f byte
	if a.Final {
		f |= flagFinal
	}
	if a.Error != nil {
		f |= flagError
	}
	if a.Empty {
		f |= flagEmpty
	}
	return f
}

// head reads the flags and the error.
func (c *cursor) head(a *Answer) {
	f := c.u8()
	if f&^(flagFinal|flagError|flagEmpty) != 0 {
		c.fail("it has unknown flags")
	}
	a.Final, a.Empty = f&flagFinal != 0, f&flagEmpty != 0
	if f&flagError != 0 {
		a.Error = c.error()
	}
}

func appendHead(b []byte, a *Answer) []byte {
	b = append(b, a.flags())
	if a.Error != nil {
		b = appendError(b, a.Error)
	}
	return b
}

// Reply is a response of another model to a request of a backend's.
type Reply struct {
	Exec    uint64
	Model   string // that answered
	Version int64
	Answer
}

func appendReply(b []byte, r *Reply) ([]byte, error) {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(begin(b, KindReply), r.Exec)
	b = appendHead(b, &r.Answer)
	b = appendStr(b, r.Model)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Version))
	b = appendParameters(b, r.Parameters)
	return finish(appendTensors(b, r.Outputs), start)
}

func decodeReply(body []byte) (*Reply, error) {
	c := cursor{b: body}
	r := &Reply{Exec: c.u64()}
	c.head(&r.Answer)
	r.Model, r.Version, r.Parameters, r.Outputs = c.str(), int64(c.u64()), c.parameters(), c.tensors()
	return r, c.end(KindReply)
}

// response is a response to a call.
type response struct {
	call uint64
	Answer
}

func appendResponse(b []byte, r *response) ([]byte, error) {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(begin(b, KindResponse), r.call)
	b = appendHead(b, &r.Answer)
	b = appendParameters(b, r.Parameters)
	return finish(appendTensors(b, r.Outputs), start)
}

func decodeResponse(body []byte) (*response, error) {
	c := cursor{b: body}
	r := &response{call: c.u64()}
	c.head(&r.Answer)
	r.Parameters, r.Outputs = c.parameters(), c.tensors()
	return r, c.end(KindResponse)
}
