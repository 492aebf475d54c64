package grpcapi

import (
	"encoding/binary"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
)

// Large tensors are copied out of the transport's frames into memory of their model, as those of a REST body are read
// into it (decision 0038). What stands before them is checked, so it is copied elsewhere, where no other process writes.

const (
	rawInputContents = 7  // the field of a ModelInferRequest
	maxApart         = 64 // tensors of a message; one with more stays in one piece
)

// borrower borrows memory for n bytes of tensors, counted with b, from the model that the beginning of a message names.
type borrower func(beginning []byte, b *blocks.Block, n int64) frontend.Borrowed

// separate copies a message into r with its tensors in memory of the model. It returns false, and does nothing, where the
// message is small, its tensors are not its end, or there is no memory to borrow.
func (c *codec) separate(data mem.BufferSlice, r *received) bool {
	if r.borrow == nil || data.Len() < frontend.MinBorrowed {
		return false
	}
	header, tensors := layoutOf(data)
	if len(tensors) == 0 {
		return false
	}
	b := c.memory.Take(int64(header))
	if b == nil {
		return false
	}
	r.block = b
	from := data.Reader()
	defer func() { _ = from.Close() }()
	beginning := b.Bytes[:header:header]
	_, _ = from.Read(beginning)
	room := 0
	for _, t := range tensors {
		room = aligned(room) + t.size
	}
	borrowed := r.borrow(beginning, b, int64(room))
	if borrowed.Bytes == nil {
		r.release()
		return false
	}
	r.bytes, r.borrowed = beginning, borrowed
	start, end := 0, header
	for _, t := range tensors {
		start = aligned(start)
		tensor := borrowed.Bytes[start : start+t.size : start+t.size]
		_, _ = from.Discard(t.at - end)
		_, _ = from.Read(tensor)
		r.tensors = append(r.tensors, tensor)
		start, end = start+t.size, t.at+t.size
	}
	return true
}

func aligned(n int) int { return (n + blocks.Alignment - 1) &^ (blocks.Alignment - 1) }

// span is where in a message the bytes of a tensor are.
type span struct{ at, size int }

// layoutOf returns how many bytes of a ModelInferRequest stand before its raw_input_contents, and where these are. It
// returns none when they do not end the message, or do not begin in its first frame.
func layoutOf(data mem.BufferSlice) (header int, tensors []span) {
	if header, _ = firstTensor(data[0].ReadOnlyData()); header == 0 {
		return 0, nil
	}
	r, size := data.Reader(), data.Len()
	defer func() { _ = r.Close() }()
	_, _ = r.Discard(header)
	for r.Remaining() > 0 {
		tag, bad := binary.ReadUvarint(r)
		n, worse := binary.ReadUvarint(r)
		if bad != nil || worse != nil || tag != protowire.EncodeTag(rawInputContents, protowire.BytesType) ||
			n > uint64(r.Remaining()) || len(tensors) == maxApart {
			return 0, nil
		}
		tensors = append(tensors, span{size - r.Remaining(), int(n)})
		_, _ = r.Discard(int(n))
	}
	return header, tensors
}

// firstTensor returns where in a ModelInferRequest, of which the beginning is given, the first field raw_input_contents
// begins, and where its bytes do; 0 when the beginning does not tell. A message whose tensor is placed at a multiple
// of blocks.Alignment needs no second copy to be aligned.
func firstTensor(beginning []byte) (at, tensor int) {
	rest := beginning
	for len(rest) > 0 {
		at = len(beginning) - len(rest)
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 || kind != protowire.BytesType {
			return 0, 0
		}
		size, m := protowire.ConsumeVarint(rest[n:])
		switch {
		case m < 0:
			return 0, 0
		case number == rawInputContents:
			return at, at + n + m
		case size > uint64(len(rest)-n-m):
			return 0, 0
		}
		rest = rest[n+m+int(size):]
	}
	return 0, 0
}
