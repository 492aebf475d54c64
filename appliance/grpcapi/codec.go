package grpcapi

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of every other message
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

// controlBytes bounds a compressed message without tensors or files after decompression.
const controlBytes = 1 << 20

// codec turns messages into bytes and back. The messages with tensors or files pass through it as bytes: they are
// gathered out of the transport's frames with one copy, or expanded, into counted memory, and leave without any copy.
type codec struct {
	encoding.CodecV2 // for all others
	memory           *blocks.Memory
	limit            int64 // of a message after decompression
}

func newCodec(m *blocks.Memory, limit int64) *codec {
	return &codec{CodecV2: encoding.GetCodecV2("proto"), memory: m, limit: limit}
}

// received is the message of a ModelInferRequest or a RepositoryModelLoadRequest. Its bytes are read until release.
type received struct {
	block *blocks.Block
	bytes []byte
	err   error // why it has no bytes: blocks.ErrFull, or an error of its compression
	at    time.Time
}

// release ends the use of the bytes. It may be called more than once, by one goroutine.
func (r *received) release() {
	r.block.Free()
	r.block, r.bytes = nil, nil
}

// reply is a response with tensors. It is marshalled exactly once; the outputs are released when the transport has
// written them.
type reply struct {
	pieces []wire.Piece
	resp   *edgewise.Response
}

// Unmarshal reads a message. data is borrowed for the call.
func (c *codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if ok {
		r.release() // the library fails a call with a second message after this
	}
	encoded, compressed := compressionOf(data)
	switch {
	case ok && compressed:
		r.block, r.bytes, r.err = encoded.expand(data, c.memory, c.limit)
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

// gather copies a message into a block.
func (c *codec) gather(data mem.BufferSlice) (b *blocks.Block, message []byte, err error) {
	size := data.Len()
	if b = c.memory.Take(int64(size) + blocks.Alignment); b == nil {
		return nil, nil, blocks.ErrFull
	}
	start := 0
	if len(data) > 0 {
		start = -tensorStart(data[0].ReadOnlyData()) & (blocks.Alignment - 1)
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
	h := &held{resp: r.resp}
	h.left.Store(1) // for this function
	buffers := make(mem.BufferSlice, len(r.pieces))
	for i, p := range r.pieces {
		if !p.Borrowed {
			buffers[i] = mem.SliceBuffer(p.Bytes)
			continue
		}
		h.left.Add(1)
		buffers[i] = mem.NewBuffer(&p.Bytes, h)
	}
	h.end()
	return buffers, nil
}

// held releases a response when the last of its outputs has been written.
type held struct {
	resp *edgewise.Response
	left atomic.Int64
}

// Get is never called: held only releases buffers.
func (*held) Get(int) *[]byte { panic("BUG: held has no buffers") }

// Put ends the use of one output.
func (h *held) Put(*[]byte) { h.end() }

func (h *held) end() {
	if h.left.Add(-1) == 0 {
		h.resp.Release()
	}
}

// tensorStart returns where in a ModelInferRequest, of which the beginning is given, the bytes of the first tensor in
// raw_input_contents begin; 0 when the beginning does not tell. A message placed accordingly needs no second copy to be
// aligned.
func tensorStart(beginning []byte) int {
	const rawInputContents = 7
	rest := beginning
	for len(rest) > 0 {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 || kind != protowire.BytesType {
			return 0
		}
		size, m := protowire.ConsumeVarint(rest[n:])
		switch {
		case m < 0:
			return 0
		case number == rawInputContents:
			return len(beginning) - len(rest) + n + m
		case size > uint64(len(rest)-n-m):
			return 0
		}
		rest = rest[n+m+int(size):]
	}
	return 0
}
