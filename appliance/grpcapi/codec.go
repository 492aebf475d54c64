package grpcapi

import (
	"time"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of every other message
	"google.golang.org/grpc/mem"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
)

// controlBytes bounds a compressed message without tensors or files after decompression.
const controlBytes = 1 << 20

// codec turns messages into bytes and back. The messages with tensors or files pass through it as bytes: they are
// gathered out of the transport's frames with one copy, or expanded, into counted memory or that of their model, and leave
// without any copy.
type codec struct {
	encoding.CodecV2 // for all others
	memory           *blocks.Memory
	outgoing         *outgoing
	limit            int64 // of a message after decompression
	panicked         func(method string, value any) error
}

func newCodec(m *blocks.Memory, o *outgoing, limit int64, panicked func(method string, value any) error) *codec {
	return &codec{CodecV2: encoding.GetCodecV2("proto"), memory: m, outgoing: o, limit: limit, panicked: panicked}
}

// received is the message of a ModelInferRequest or a RepositoryModelLoadRequest. Its bytes are read until release.
type received struct {
	arrived  *arrival // counts its frames; nil: nobody does
	borrow   borrower // nil: it stays in one piece
	block    *blocks.Block
	bytes    []byte            // the message, or what stands before its tensors
	tensors  [][]byte          // its raw_input_contents, where they are apart
	borrowed frontend.Borrowed // memory of the model, where they are
	err      error             // why it has no bytes: blocks.ErrFull, an error of its compression, or a panic
	at       time.Time
}

// release ends the use of the bytes. It may be called more than once, by one goroutine.
func (r *received) release() {
	r.block.Free()
	r.borrowed.Release()
	r.block, r.bytes, r.tensors = nil, nil, nil
}

// reply is a response with tensors. It is marshalled exactly once; the outputs are released when the transport has
// written them, or dropped them.
type reply struct {
	pieces []wire.Piece
	resp   *edgewise.Response
}

// Unmarshal reads a message. data is borrowed for the call. A panic is an error of the message: the library reads some
// messages outside of the interceptors, which recover those of handlers.
func (c *codec) Unmarshal(data mem.BufferSlice, v any) (err error) {
	r, ok := v.(*received)
	if ok {
		r.release() // the library fails a call with a second message after this
	}
	defer func() {
		switch value := recover(); {
		case value != nil && ok:
			r.release()
			r.err = c.panicked("Unmarshal", value)
		case value != nil:
			err = c.panicked("Unmarshal", value)
		}
	}()
	encoded, compressed := compressionOf(data)
	if ok {
		r.arrived.decoded(wireBytes(data, compressed))
	}
	switch {
	case ok && compressed:
		r.block, r.bytes, r.err = encoded.expand(data, c.memory, c.limit)
	case ok && c.separate(data, r):
	case ok:
		r.block, r.bytes, r.err = c.gather(data)
	case compressed:
		message, err := encoded.expandSmall(data, controlBytes)
		if err != nil {
			return err
		}
		return c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, v)
	default:
		return c.CodecV2.Unmarshal(data, v)
	}
	return nil
}

// wireBytes returns how many bytes of DATA frames a message took.
func wireBytes(data mem.BufferSlice, compressed bool) int64 {
	n := data.Len() + prefixBytes
	if compressed {
		n -= markBytes
	}
	return int64(n)
}

// gather copies a message into a block.
func (c *codec) gather(data mem.BufferSlice) (b *blocks.Block, message []byte, err error) {
	size := data.Len()
	if b = c.memory.Take(int64(size) + blocks.Alignment); b == nil {
		return nil, nil, blocks.ErrFull
	}
	start := 0
	if len(data) > 0 {
		_, tensor := firstTensor(data[0].ReadOnlyData())
		start = -tensor & (blocks.Alignment - 1)
	}
	message = b.Bytes[start : start+size : start+size]
	data.CopyTo(message)
	return b, message, nil
}

// Marshal makes the bytes of a message, which the caller frees.
func (c *codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*reply)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	return c.outgoing.hold(r.pieces, r.resp), nil
}
