package grpcapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/edgewise-ai/edgewise"
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
)

// arrivals is a connection that parses the headers of the frames that the library reads. The library reads frame by
// frame, without a buffer of its own, so that a call's tap handle runs before a frame behind its HEADERS frame is
// parsed.
type arrivals struct {
	net.Conn
	reader *bufio.Reader
	order  ordering.Order

	skip   int // bytes before the next frame header
	header [frameHeaderBytes]byte
	have   int // bytes of header
	opened uint32
	whole  bool // the stream that opened last is complete with its HEADERS

	mu      sync.Mutex                 // guards pending
	pending map[uint32]*ordering.Place // of open calls, by stream
}

func newArrivals(conn net.Conn) *arrivals {
	return &arrivals{
		Conn: conn, reader: bufio.NewReaderSize(conn, readBuffer), skip: prefaceBytes,
		pending: map[uint32]*ordering.Place{},
	}
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
		if !ends {
			return
		}
		a.mu.Lock()
		place := a.pending[stream]
		a.mu.Unlock()
		if place != nil {
			place.Take()
		}
	}
}

// expect sets the place of a stream whose last frame has not arrived; nil removes it.
func (a *arrivals) expect(stream uint32, place *ordering.Place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if place == nil {
		delete(a.pending, stream)
		return
	}
	a.pending[stream] = place
}

// arrival is a call's place, from its tap handle to its end.
type arrival struct {
	place *ordering.Place
	conn  *arrivals
	id    uint32 // of its HTTP/2 stream
	stop  func() bool
}

type arrivalKey struct{}

// arriving makes the place of the call whose HEADERS frame was read last. It runs in the tap handle.
func arriving(ctx context.Context) context.Context {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return ctx
	}
	info, ok := p.AuthInfo.(arrivalInfo)
	if !ok {
		return ctx
	}
	v := &arrival{place: info.arrivals.order.NewPlace(), conn: info.arrivals, id: info.arrivals.opened}
	if v.conn.whole {
		v.place.Take()
	} else {
		v.conn.expect(v.id, v.place)
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
	v.place.Leave()
	if v.conn != nil {
		v.conn.expect(v.id, nil)
	}
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
	a := newArrivals(conn)
	return a, arrivalInfo{info, a}, nil
}

// Clone returns a copy.
func (o observed) Clone() credentials.TransportCredentials {
	return observed{o.TransportCredentials.Clone()}
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
