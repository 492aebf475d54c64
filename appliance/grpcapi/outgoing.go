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
// reset. Nothing in the library refers to such buffers any more, so the garbage collector finds them (decision 0109).

// outgoing counts the replies that the library has not freed, and finds those that it has dropped.
type outgoing struct {
	open    atomic.Int64 // replies of which outputs are to be written
	looking atomic.Bool  // a series of looks is in progress
}

// The first look for dropped replies comes firstLook after the end of a call or a connection. Each time until the next look is twice
// the one before, and lastLook at most: parts of the library that refer to dropped replies may take a while to end.
const (
	firstLook = 250 * time.Millisecond
	lastLook  = 8 * time.Second
)

// look begins a series of looks for replies that the library has dropped, unless no reply is open or a series is in progress. It
// returns at once. It is called when a call or a connection has ended early.
func (o *outgoing) look() {
	if o.open.Load() > 0 && !o.looking.Swap(true) {
		o.lookIn(firstLook)
	}
}

// lookIn looks after d, and again later while replies are open.
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

// lookIf calls look if the context of a call that has ended was cancelled.
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
