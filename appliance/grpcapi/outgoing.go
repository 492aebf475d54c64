package grpcapi

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
)

// The library frees the buffers of a message when it has written them, and when it drops them with their stream. It drops
// some without freeing them: those that wait in a connection that is lost, and those that are sent while their stream is
// reset. Nothing of the library's refers to these any more, so the garbage collector finds them.

// outgoing are the replies in the hands of the library.
type outgoing struct {
	open    atomic.Int64 // replies of which outputs are to be written
	looking atomic.Bool  // look has begun
}

// Dropped replies are looked for firstLook after the end of a call or a connection, and again after twice that time, and so
// on until lastLook: parts of the library that refer to them may take a while to end.
const (
	firstLook = 250 * time.Millisecond
	lastLook  = 8 * time.Second
)

// look releases replies that the library has dropped, soon. It is called where a call or a connection ends early.
func (o *outgoing) look() {
	if o.open.Load() > 0 && !o.looking.Swap(true) {
		o.lookIn(firstLook)
	}
}

func (o *outgoing) lookIn(d time.Duration) {
	time.AfterFunc(d, func() {
		if o.open.Load() == 0 || d > lastLook {
			o.looking.Store(false)
			return
		}
		runtime.GC()
		o.lookIn(2 * d)
	})
}

// lookIf is look for a call that has ended, if that was early.
func (o *outgoing) lookIf(ctx context.Context) {
	if ctx.Err() != nil {
		o.look()
	}
}

// held is a reply of which outputs are to be written. Only the buffers of these outputs refer to it.
type held struct {
	*openReply
	left    atomic.Int64    // outputs that are to be written
	dropped runtime.Cleanup // releases the reply when nothing refers to held any more
}

// openReply is a response that is released once, by end.
type openReply struct {
	outgoing *outgoing
	resp     *edgewise.Response
}

func (r *openReply) end() {
	r.resp.Release()
	r.outgoing.open.Add(-1)
}

// hold makes the buffers of a message. The response is released when the last of its outputs has been written or dropped.
func (o *outgoing) hold(pieces []wire.Piece, resp *edgewise.Response) mem.BufferSlice {
	h := &held{openReply: &openReply{o, resp}}
	o.open.Add(1)
	h.dropped = runtime.AddCleanup(h, (*openReply).end, h.openReply)
	h.left.Store(1) // for this function
	buffers := make(mem.BufferSlice, len(pieces))
	for i, p := range pieces {
		if !p.Borrowed {
			buffers[i] = mem.SliceBuffer(p.Bytes)
			continue
		}
		h.left.Add(1)
		buffers[i] = mem.NewBuffer(&p.Bytes, h)
	}
	h.written()
	return buffers
}

// Get is never called: held only releases buffers.
func (*held) Get(int) *[]byte { panic("BUG: held has no buffers") }

// Put ends the use of one output.
func (h *held) Put(*[]byte) { h.written() }

func (h *held) written() {
	if h.left.Add(-1) > 0 {
		return
	}
	h.dropped.Stop()
	h.end()
	runtime.KeepAlive(h) // until its cleanup is stopped
}
