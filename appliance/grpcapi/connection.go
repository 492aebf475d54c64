package grpcapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/ordering"
)

// The library starts the handlers of one connection in any order. So each ModelInfer has a place in the order of its
// connection, which it takes when the last frame of its request is read: requests enter their queues in the order in
// which they arrived completely. A request that is not complete delays no other, however slow or large it is. A
// complete request delays later ones while it is decoded and validated, and not while it is queued or runs.
//
// The messages of one ModelStreamInfer have an order of their own (stream.go). HTTP/2 promises no order between a
// stream and the calls beside it, and neither does the server.

const (
	prefaceBytes     = 24 // of an HTTP/2 client, before its first frame
	frameHeaderBytes = 9
	readBuffer       = 32 << 10 // of a connection

	frameData    = 0
	frameHeaders = 1
	flagEnd      = 1 // END_STREAM, of frameData and frameHeaders

	minFrameCost = 256 // bytes that the library needs for the smallest frame that it keeps
	prefixBytes  = 5   // of a message
)

// arrivals is a connection that parses the headers of the frames that the library reads. The library reads frame by
// frame, without a buffer of its own, so that a call's tap handle runs before a frame behind its HEADERS frame is
// parsed.
//
// It also counts what arrives of messages that are not complete: the library keeps the frames until they are, and lets
// each of many calls send a message of the largest size.
type arrivals struct {
	net.Conn
	reader *bufio.Reader
	order  ordering.Order
	memory *blocks.Memory
	ended  func() // called when the connection is closed

	skip   int // bytes before the next frame header
	header [frameHeaderBytes]byte
	have   int // bytes of header
	opened uint32
	whole  bool // the stream that opened last is complete with its HEADERS

	mu      sync.Mutex          // guards pending, and what is counted for its calls
	pending map[uint32]*arrival // open calls, by stream
}

func newArrivals(conn net.Conn, memory *blocks.Memory, ended func()) *arrivals {
	return &arrivals{
		Conn: conn, reader: bufio.NewReaderSize(conn, readBuffer), skip: prefaceBytes,
		memory: memory, ended: ended, pending: map[uint32]*arrival{},
	}
}

// Close closes the connection.
func (a *arrivals) Close() error {
	defer a.ended()
	return a.Conn.Close()
}

// Read is called by the library, by one goroutine at a time, which also runs the tap handle.
func (a *arrivals) Read(p []byte) (int, error) {
	n, err := a.reader.Read(p)
	a.observe(p[:n])
	return n, err
}

// observe finds the frame headers in bytes that were read.
func (a *arrivals) observe(p []byte) {
	for len(p) > 0 {
		if a.skip > 0 {
			n := min(a.skip, len(p))
			a.skip -= n
			p = p[n:]
			continue
		}
		n := copy(a.header[a.have:], p)
		a.have += n
		p = p[n:]
		if a.have == frameHeaderBytes {
			a.have = 0
			a.frame()
		}
	}
}

// frame parses a frame header: length (3 bytes), type, flags, stream (4).
func (a *arrivals) frame() {
	h := &a.header
	a.skip = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
	stream, ends := binary.BigEndian.Uint32(h[5:])&(1<<31-1), h[4]&flagEnd != 0
	switch h[3] {
	case frameHeaders:
		a.opened, a.whole = stream, ends
	case frameData:
		a.data(stream, int64(a.skip), ends)
	}
}

// data counts a DATA frame of n bytes, and takes the place of a call of which it is the last one.
func (a *arrivals) data(stream uint32, n int64, ends bool) {
	a.mu.Lock()
	v := a.pending[stream]
	if v != nil {
		v.count(n, ends)
	}
	a.mu.Unlock()
	if v != nil && v.place != nil && ends {
		v.place.Take()
	}
}

// expect adds a call whose last frame has not arrived.
func (a *arrivals) expect(v *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending[v.id] = v
}

// forget removes a call that has ended.
func (a *arrivals) forget(v *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pending, v.id)
	v.release(math.MaxInt64)
}

// arrival is a call from its tap handle to its end.
type arrival struct {
	place *ordering.Place // nil: the call is in no order
	conn  *arrivals
	id    uint32 // of its HTTP/2 stream
	stop  func() bool

	// Guarded by conn.mu:
	received, held int64         // bytes that arrived and were not decoded, and what is counted for them
	whole          bool          // its last frame has arrived
	refused        bool          // there was no memory for a frame
	full           chan struct{} // closed when it is refused; nil: nobody waits for that
}

// count counts n bytes that arrive, and refuses the call for which there is no memory. A message that is complete with its
// first frame is counted when it is decoded. The caller holds conn.mu.
func (v *arrival) count(n int64, ends bool) {
	v.whole = v.whole || ends
	if n == 0 || ends && v.received == 0 || v.refused {
		return
	}
	cost := max(n, minFrameCost)
	if v.conn.memory.Reserve(cost) {
		v.received += n
		v.held += cost
		return
	}
	v.refused = true
	if v.full != nil {
		close(v.full)
	}
	time.AfterFunc(refusalGrace, v.cut)
}

// refusalGrace is the time that a refused call has to end.
const refusalGrace = 5 * time.Second

// cut ends the connection of a refused call that goes on: its handler waits for something else, or is the library's.
func (v *arrival) cut() {
	v.conn.mu.Lock()
	goesOn := v.conn.pending[v.id] == v
	v.conn.mu.Unlock()
	if goesOn {
		_ = v.conn.Close()
	}
}

// refusal returns a channel that is closed when the call is refused; nil, which never is, when its last frame has arrived.
func (v *arrival) refusal() <-chan struct{} {
	if v.conn == nil {
		return nil
	}
	v.conn.mu.Lock()
	defer v.conn.mu.Unlock()
	if v.whole && !v.refused {
		return nil
	}
	if v.full == nil {
		v.full = make(chan struct{})
		if v.refused {
			close(v.full)
		}
	}
	return v.full
}

// release gives back what is counted for n of the bytes that arrived, or for all of them. The caller holds conn.mu.
func (v *arrival) release(n int64) {
	share := v.held
	if n < v.received {
		share = v.held / v.received * n
	} else {
		n = v.received
	}
	v.received -= n
	v.held -= share
	v.conn.memory.Return(share)
}

// decoded notes that n bytes that arrived are decoded, and counted elsewhere.
func (v *arrival) decoded(n int64) {
	if v == nil || v.conn == nil {
		return
	}
	v.conn.mu.Lock()
	defer v.conn.mu.Unlock()
	v.release(n)
}

type arrivalKey struct{}

// arriving returns the context of the call whose HEADERS frame was read last, with its arrival. It runs in the tap handle.
func arriving(ctx context.Context, method string) context.Context {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return ctx
	}
	info, ok := p.AuthInfo.(arrivalInfo)
	if !ok {
		return ctx
	}
	v := &arrival{conn: info.arrivals, id: info.arrivals.opened, whole: info.arrivals.whole}
	if method == inference.GRPCInferenceService_ModelInfer_FullMethodName {
		v.place = v.conn.order.NewPlace()
	}
	switch {
	case !v.whole:
		v.conn.expect(v)
	case v.place != nil:
		v.place.Take()
	}
	v.stop = context.AfterFunc(ctx, v.leave) // a call may end before its handler starts
	return context.WithValue(ctx, arrivalKey{}, v)
}

// arrivalOf returns a call's place. Calls of a connection that is not observed are in no order.
func arrivalOf(ctx context.Context) *arrival {
	if v, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		return v
	}
	return &arrival{place: new(ordering.Order).NewPlace()}
}

// end leaves the place of a call whose handler has ended.
func (v *arrival) end() {
	if v.stop == nil || v.stop() {
		v.leave()
	}
}

func (v *arrival) leave() {
	if v.place != nil {
		v.place.Leave()
	}
	if v.conn != nil {
		v.conn.forget(v)
	}
}

// decoding returns a function that decodes the message of a call as decode does, and returns an error as soon as there is
// no memory for what arrives of it. Where that is known to be all, it is decode.
func (s *Server) decoding(ctx context.Context, method string, decode func(any) error) func(any) error {
	return func(message any) error {
		refused := arrivalOf(ctx).refusal()
		if refused == nil {
			return decode(message)
		}
		own := message // of the goroutine, which goes on after a refusal
		in, counted := message.(*received)
		if counted {
			own = &received{at: in.at, arrived: in.arrived, borrow: in.borrow}
		}
		done := make(chan error, 1)
		s.work.Go(func() { done <- decode(own) })
		select {
		case err := <-done:
			if counted {
				*in = *own.(*received)
			}
			return err
		case <-refused:
		}
		if counted {
			s.work.Go(func() {
				<-done // soon: the call ends
				own.(*received).release()
			})
		}
		err := statusOf(s.noMemory()).Err()
		s.calls.count(method, status.Code(err))
		return err
	}
}

// uncounted is a stream of small messages, whose codec does not know the call.
type uncounted struct{ grpc.ServerStream }

// RecvMsg receives a message.
func (u uncounted) RecvMsg(message any) error {
	err := u.ServerStream.RecvMsg(message)
	arrivalOf(u.Context()).decoded(math.MaxInt64)
	return err
}

// inOrder waits until earlier requests have entered their queues. With the context that it returns, the request leaves
// its place when it has entered its own.
func inOrder(ctx context.Context, place *ordering.Place) (context.Context, error) {
	if err := place.Wait(ctx); err != nil {
		return ctx, edgewise.Errorf("grpcapi.inOrder", edgewise.KindOf(err), "waiting for earlier requests: %w", err)
	}
	return ordering.WithQueued(ctx, place.Leave), nil
}

// observed are credentials whose connections are arrivals.
type observed struct {
	credentials.TransportCredentials
	memory *blocks.Memory
	ended  func() // called when a connection is closed
}

// arrivalInfo is the AuthInfo of a call's peer, with the connection.
type arrivalInfo struct {
	credentials.AuthInfo
	arrivals *arrivals
}

// ServerHandshake does the handshake of the credentials and wraps the connection.
func (o observed) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := o.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	a := newArrivals(conn, o.memory, o.ended)
	return a, arrivalInfo{info, a}, nil
}

// Clone returns a copy.
func (o observed) Clone() credentials.TransportCredentials {
	return observed{o.TransportCredentials.Clone(), o.memory, o.ended}
}

// tlsRecord is the first byte of a TLS connection; a call in plain text begins with a letter.
const tlsRecord = 0x16

// sniffing are credentials that accept TLS, and plain text from the peers that may use it.
type sniffing struct {
	credentials.TransportCredentials // of TLS
	plain                            func(peer net.Addr) bool
}

// ServerHandshake tells TLS from plain text by the first byte.
func (s *sniffing) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(raw, first); err != nil {
		return nil, nil, err
	}
	read := &prefixed{raw, io.MultiReader(bytes.NewReader(first), raw)}
	switch {
	case first[0] == tlsRecord:
		return s.TransportCredentials.ServerHandshake(read)
	case s.plain(raw.RemoteAddr()):
		return insecure.NewCredentials().ServerHandshake(read)
	}
	return nil, nil, edgewise.Errorf("grpcapi.ServerHandshake", edgewise.Denied,
		"%v speaks plain text: this port speaks TLS", raw.RemoteAddr())
}

// Clone returns a copy.
func (s *sniffing) Clone() credentials.TransportCredentials {
	return &sniffing{s.TransportCredentials.Clone(), s.plain}
}

// prefixed is a connection whose first bytes were read before.
type prefixed struct {
	net.Conn
	io.Reader // those bytes, and then the connection's
}

func (p *prefixed) Read(b []byte) (int, error) { return p.Reader.Read(b) }
