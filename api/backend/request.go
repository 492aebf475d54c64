package backend

import (
	"encoding/binary"
	"time"
)

// Flags of sequences in a request.
const (
	SequenceStart uint32 = 1
	SequenceEnd   uint32 = 2
)

// Request is one inference on the wire.
type Request struct {
	ID              string
	Correlation     uint64 // of its sequence, as a number
	CorrelationText string // or as a text
	Flags           uint32
	Priority        uint64
	Timeout         time.Duration // whole microseconds
	Parameters      map[string]any
	Wanted          []string // the outputs wanted; empty: all
	Inputs          []Tensor
}

func (c *cursor) request() Request {
	r := Request{ID: c.str(), Correlation: c.u64(), CorrelationText: c.str(), Flags: c.u32(), Priority: c.u64()}
	r.Timeout = time.Duration(min(c.u64(), maxMicroseconds)) * time.Microsecond
	r.Parameters = c.parameters()
	if n := c.count(2); n > 0 {
		r.Wanted = make([]string, n)
		for i := range r.Wanted {
			r.Wanted[i] = c.str()
		}
	}
	r.Inputs = c.tensors()
	return r
}

// maxMicroseconds is the longest time.Duration.
const maxMicroseconds = uint64(1<<63-1) / 1000

func appendRequest(b []byte, r *Request) []byte {
	b = appendStr(b, r.ID)
	b = binary.LittleEndian.AppendUint64(b, r.Correlation)
	b = appendStr(b, r.CorrelationText)
	b = binary.LittleEndian.AppendUint32(b, r.Flags)
	b = binary.LittleEndian.AppendUint64(b, r.Priority)
	b = binary.LittleEndian.AppendUint64(b, uint64(max(r.Timeout, 0)/time.Microsecond))
	b = appendParameters(b, r.Parameters)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(r.Wanted)))
	for _, name := range r.Wanted {
		b = appendStr(b, name)
	}
	return appendTensors(b, r.Inputs)
}

// Run is one batch on its way to a backend.
type Run struct {
	Run    uint64
	Joined bool // the inputs of a name stand one after the other, in the order of the calls
	Calls  []RunCall
}

// RunCall is one request of a batch.
type RunCall struct {
	Call uint64
	Request
}

const runJoined = 1

// minCall is the shortest form of a call.
const minCall = 8 + 2 + 8 + 2 + 4 + 8 + 8 + 2 + 2 + 2

func appendRun(b []byte, r *Run) ([]byte, error) {
	start := len(b)
	b = begin(b, KindRun)
	b = binary.LittleEndian.AppendUint64(b, r.Run)
	flags := byte(0)
	if r.Joined {
		flags = runJoined
	}
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(r.Calls)))
	for i := range r.Calls {
		b = binary.LittleEndian.AppendUint64(b, r.Calls[i].Call)
		b = appendRequest(b, &r.Calls[i].Request)
	}
	return finish(b, start)
}

func decodeRun(body []byte) (*Run, error) {
	c := cursor{b: body}
	r := &Run{Run: c.u64(), Joined: c.u8()&runJoined != 0}
	n := c.count(minCall)
	r.Calls = make([]RunCall, n)
	for i := range r.Calls {
		r.Calls[i].Call = c.u64()
		r.Calls[i].Request = c.request()
	}
	return r, c.end(KindRun)
}
