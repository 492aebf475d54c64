package grpcapi

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
)

// deaf is a connection of a client that does not read once it has asked.
type deaf struct {
	net.Conn
	asked <-chan struct{}
	once  sync.Once
	left  chan struct{}
}

func (d *deaf) Read(p []byte) (int, error) {
	select {
	case <-d.asked:
		<-d.left
	default:
	}
	return d.Conn.Read(p)
}

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.left) })
	return d.Conn.Close()
}

// TestOutputsComeBackWhenTheConnectionIsLost leaves while most of a response waits for the client's window.
func TestOutputsComeBackWhenTheConnectionIsLost(t *testing.T) {
	ts := start(t, nil)
	asked := make(chan struct{})
	conns := make(chan net.Conn, 1)
	conn := ts.dial(t, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			d := &deaf{Conn: raw, asked: asked, left: make(chan struct{})}
			conns <- d
			return d, err
		}))
	client := inference.NewGRPCInferenceServiceClient(conn)
	if _, err := client.ServerLive(t.Context(), &inference.ServerLiveRequest{}); err != nil {
		t.Fatal(err)
	}
	close(asked)
	failed := make(chan error, 1)
	go func() {
		_, err := client.ModelInfer(t.Context(), raw(1<<20))
		failed <- err
	}()
	eventually(t, "the answer", func() bool { return ts.engine.infers.Load() == 1 })
	_ = (<-conns).Close()
	if err := <-failed; err == nil {
		t.Error("the call was answered")
	}
	eventually(t, "the release", func() bool { return ts.engine.released.Load() == 1 })
}

// TestADroppedReplyIsReleasedAndNoOther drops the buffers of one reply as the library does, and keeps those of another.
func TestADroppedReplyIsReleasedAndNoOther(t *testing.T) {
	var o outgoing
	var kept, dropped atomic.Int64
	hold := func(released *atomic.Int64) mem.BufferSlice {
		output := make([]byte, 1<<16)
		return o.hold([]wire.Piece{{Bytes: []byte("head")}, {Bytes: output, Borrowed: true}, {Bytes: output, Borrowed: true}},
			&edgewise.Response{Free: func() { released.Add(1) }})
	}
	buffers := hold(&kept)
	hold(&dropped)
	o.look()
	eventually(t, "the release", func() bool { return dropped.Load() == 1 })
	if n := kept.Load(); n != 0 {
		t.Errorf("the other one was released %d times before it was written", n)
	}
	buffers.Free()
	runtime.GC()
	if n, open := kept.Load(), o.open.Load(); n != 1 || open != 0 {
		t.Errorf("the other one was released %d times, and %d are open", n, open)
	}
}
