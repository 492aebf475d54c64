package httpapi

import (
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

const (
	// prefetched is how much of a body of known length the HTTP library reads by itself, before any handler.
	prefetched = 8 << 10
	// firstChunk is the block that a body of unknown length begins with.
	firstChunk = 64 << 10
	// maxChunks bounds the chunks of a body that is not an upload: each costs time beside its bytes.
	maxChunks = 65_536
)

// Stream is a request's body on its way in. Each bodyProgress bytes of it have their own deadline.
type Stream struct {
	reader   io.Reader
	conn     *conn
	limit    limit
	timeout  time.Duration
	length   int64    // bytes announced; -1 for a chunked body
	received int64    // bytes so far
	due      int64    // the next deadline is set when received reaches this
	ended    bool     // whether the body was read to its end
	err      error    // the first error, for good
	chunks   *chunked // nil for a body of known length
}

// openStream makes the body of a request its Stream. Where there is none it is at its end.
func (s *Server) openStream(ctx *fasthttp.RequestCtx, r *Request) {
	r.Stream = &r.body
	in := r.Stream
	*in = Stream{
		reader: ctx.RequestBodyStream(), conn: r.conn, limit: r.route.limit, timeout: s.cfg.BodyTimeout,
		length: int64(ctx.Request.Header.ContentLength()),
	}
	if in.length == rawLength {
		in.chunks = &chunked{raw: in.reader}
		in.reader, in.length = in.chunks, -1
		ctx.SetConnectionClose() // nothing behind a chunked body is a request: see decision 0053
	}
	if in.reader == nil {
		in.ended, in.err = true, io.EOF
	}
}

// Read reads the body; io.EOF is its true end. Errors: TooLarge, Deadline (answered with status 408) when too little
// arrives in time, Invalid when the client broke off, framed the body badly or cut it into too many chunks.
func (b *Stream) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.received >= b.due {
		b.due = b.received + bodyProgress
		_ = b.conn.SetReadDeadline(time.Now().Add(b.timeout))
	}
	p = p[:min(int64(len(p)), b.limit.bytes+1-b.received)]
	n, err := b.reader.Read(p)
	b.received += int64(n)
	switch {
	case b.chunks != nil && b.limit.chunks > 0 && b.chunks.count > b.limit.chunks:
		b.err = b.limit.choppy()
		return 0, b.err
	case b.received > b.limit.bytes:
		b.err = b.limit.exceeded()
		return 0, b.err
	case errors.Is(err, io.EOF) && b.whole():
		b.ended, b.err = true, io.EOF
	case err != nil:
		b.err = b.failure(err)
	}
	return n, b.err
}

// Length returns the bytes of the body that the headers announce; -1 for a chunked body.
func (b *Stream) Length() int64 { return b.length }

// Failure returns why the body could not be read to its end; nil when it was, or when no Read has failed.
func (b *Stream) Failure() error {
	if b.ended {
		return nil
	}
	return b.err
}

// Finish reads the end of a body of known length of which all bytes have been read. Errors: those of Read.
func (b *Stream) Finish() error {
	var none [1]byte
	if _, err := b.Read(none[:]); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// whole tells whether the body is complete now that its reader has ended. The library ends a body of known length
// without an error where the client broke off, too.
func (b *Stream) whole() bool { return b.length < 0 || b.received == b.length }

// failure says why reading failed with cause.
func (b *Stream) failure(cause error) error {
	const op = "httpapi.Stream.Read"
	var timeout net.Error
	if errors.As(b.conn.broken, &timeout) && timeout.Timeout() {
		return WithStatus(fasthttp.StatusRequestTimeout, edgewise.Errorf(op, edgewise.Deadline,
			"the body stalled after %d bytes: fewer than %d arrived within %v (http.body_timeout)", b.received, bodyProgress,
			b.timeout))
	}
	if b.chunks != nil && b.conn.broken == nil {
		return edgewise.Errorf(op, edgewise.Invalid, "the body is badly framed after %d bytes: %w", b.received, cause)
	}
	return edgewise.Errorf(op, edgewise.Invalid, "the body broke off after %d bytes", b.received)
}

// readBody reads the whole body into a block of which the caller becomes the owner, placed so that what follows the
// JSON part of an inference request is aligned. The block is nil when there is no body. Errors: Busy, and those of
// Stream.Read.
func (s *Server) readBody(ctx *fasthttp.RequestCtx, in *Stream) (*blocks.Block, []byte, error) {
	if in.ended || in.length == 0 {
		in.ended = true
		return nil, nil, nil
	}
	if in.length > 0 && in.length <= prefetched {
		in.due = in.length + 1 // it is here already: no deadline is needed
	}
	room := in.length
	if room < 0 {
		room = firstChunk
	}
	b := s.memory.Take(room)
	if b == nil {
		return nil, nil, s.NoMemory()
	}
	start := BodyStart(Field(&ctx.Request.Header, kserve.HeaderLength))
	var size int
	for {
		n, err := in.Read(b.Bytes[start+size:])
		size += n
		if errors.Is(err, io.EOF) {
			return b, b.Bytes[start : start+size], nil
		}
		if err != nil {
			b.Free()
			return nil, nil, err
		}
		if start+size < len(b.Bytes) {
			continue
		}
		larger := s.memory.Take(min(2*int64(len(b.Bytes)), in.limit.bytes+1))
		if larger == nil {
			b.Free()
			return nil, nil, s.NoMemory()
		}
		copy(larger.Bytes[start:], b.Bytes[start:start+size])
		b.Free()
		b = larger
	}
}

// NoMemory is the error of a request for which Memory has too little left.
func (s *Server) NoMemory() error {
	return edgewise.Errorf("httpapi.readBody", edgewise.Busy, "the bodies of all requests together may take %d bytes "+
		"(http.max_inflight_bytes), and those in progress leave too little", s.cfg.MaxInflightBytes)
}

// BodyStart returns where in an aligned block a body begins whose first n bytes, as told by header, are JSON, so that
// the byte after them is aligned.
func BodyStart(header []byte) int {
	if len(header) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(string(header), 10, 31)
	if err != nil {
		return 0
	}
	return int(-n & (blocks.Alignment - 1))
}

var _ io.Reader = (*Stream)(nil)
