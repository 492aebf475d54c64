package grpcapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

// opened begins a ModelInfer whose request is not sent yet.
func (ts *testServer) opened(t *testing.T, ctx context.Context, desc grpc.StreamDesc,
	options ...grpc.CallOption,
) grpc.ClientStream {
	t.Helper()
	st, err := ts.conn.NewStream(ctx, &desc, inference.GRPCInferenceService_ModelInfer_FullMethodName, options...)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// sent sends one ModelInfer without waiting for its answer. Those of one goroutine arrive in the order in which they
// were sent.
func (ts *testServer) sent(t *testing.T, ctx context.Context, req *request, desc grpc.StreamDesc,
	options ...grpc.CallOption,
) grpc.ClientStream {
	t.Helper()
	st := ts.opened(t, ctx, desc, options...)
	if err := st.SendMsg(req); err != nil {
		t.Fatal(err)
	}
	if desc.ClientStreams {
		if err := st.CloseSend(); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func answered(st grpc.ClientStream) error { return st.RecvMsg(new(inference.ModelInferResponse)) }

// queue notes in which order requests enter it.
type queue struct {
	mu  sync.Mutex
	ids []string
}

func (q *queue) enter(_ context.Context, req *edgewise.Request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ids = append(q.ids, req.ID)
	return nil
}

func (q *queue) want(t *testing.T, n int) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint(i))
	}
	if !slices.Equal(q.ids, want) {
		t.Errorf("%d requests entered the queue as %.300v", len(q.ids), q.ids)
	}
}

func numbered(i, size int) *request {
	r := raw(size)
	r.Id = fmt.Sprint(i)
	return r
}

// Together they fit into the window of a connection: a client that has to wait for it sends them in pieces, in any
// order.
func TestCallsOfAConnectionEnterTheQueueInTheOrderOfTheirArrival(t *testing.T) {
	const n = 400
	for name, test := range map[string]struct {
		desc    grpc.StreamDesc
		options []grpc.CallOption
	}{
		"the end with the message":  {},
		"the end in an empty frame": {desc: grpc.StreamDesc{ClientStreams: true}},
		"compressed":                {options: []grpc.CallOption{grpc.UseCompressor("gzip")}},
	} {
		t.Run(name, func(t *testing.T) {
			ts, q := start(t, nil), &queue{}
			ts.engine.onQueue(q.enter)
			var calls []grpc.ClientStream
			for i := range n {
				calls = append(calls, ts.sent(t, t.Context(), numbered(i, 1+i%5*20), test.desc, test.options...))
			}
			for i, st := range calls {
				if err := answered(st); err != nil {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			q.want(t, n)
		})
	}
}

func TestMessagesOfAStreamEnterTheQueueInTheOrderOfTheirArrival(t *testing.T) {
	ts, q := start(t, nil), &queue{}
	ts.engine.onQueue(q.enter)
	st := ts.openStream(t, t.Context())
	const n = 400
	go func() {
		for i := range n {
			if st.Send(numbered(i, 1+i%3*2000)) != nil {
				return
			}
		}
		_ = st.CloseSend()
	}()
	for {
		if _, err := st.Recv(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	q.want(t, n)
}

func TestARequestThatIsStillOnItsWayHoldsNobodyUp(t *testing.T) {
	ts := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow := ts.opened(t, ctx, grpc.StreamDesc{ClientStreams: true})
	if err := slow.SendMsg(numbered(0, 100)); err != nil { // without its end
		t.Fatal(err)
	}
	never := ts.opened(t, ctx, grpc.StreamDesc{ClientStreams: true})
	if _, err := ts.client.ModelInfer(t.Context(), numbered(1, 100)); err != nil {
		t.Fatal(err)
	}
	_ = slow.CloseSend()
	if err := answered(slow); err != nil {
		t.Error(err)
	}
	cancel()
	if err := answered(never); err == nil {
		t.Error("a call without a request was answered")
	}
}

func TestARequestThatEndsWithoutAQueueHoldsNobodyUp(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *request)
		queue  func(ctx context.Context, cancel func()) error
		code   codes.Code
	}{
		"malformed":      {change: func(r *request) { r.Inputs[0].Datatype = "X" }, code: codes.InvalidArgument},
		"for no model":   {change: func(r *request) { r.ModelName = "dog" }, code: codes.NotFound},
		"handler panics": {queue: func(context.Context, func()) error { panic("test") }, code: codes.Internal},
		"client has left": {queue: func(ctx context.Context, cancel func()) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}, code: codes.Canceled},
		"refused by engine": {queue: func(context.Context, func()) error {
			return edgewise.Errorf("fake", edgewise.Busy, "full")
		}, code: codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ts.engine.onQueue(func(ctx context.Context, req *edgewise.Request) error {
				if req.ID == "0" && test.queue != nil {
					return test.queue(ctx, cancel)
				}
				return nil
			})
			bad := numbered(0, 10)
			if test.change != nil {
				test.change(bad)
			}
			first := ts.sent(t, ctx, bad, grpc.StreamDesc{})
			if err := answered(ts.sent(t, t.Context(), numbered(1, 10), grpc.StreamDesc{})); err != nil {
				t.Errorf("the call behind it: %v", err)
			}
			if test.code != codes.ResourceExhausted {
				wantStatus(t, answered(first), test.code, "")
			}
		})
	}
}

func TestARequestInItsQueueHoldsNobodyUp(t *testing.T) {
	ts := start(t, nil)
	release := make(chan struct{})
	ts.engine.onInfer(func(_ context.Context, req *edgewise.Request) error {
		if req.ID == "0" {
			<-release
		}
		return nil
	})
	first := ts.sent(t, t.Context(), numbered(0, 10), grpc.StreamDesc{})
	if err := answered(ts.sent(t, t.Context(), numbered(1, 10), grpc.StreamDesc{})); err != nil {
		t.Error(err)
	}
	close(release)
	if err := answered(first); err != nil {
		t.Error(err)
	}
}

// pieces is a connection that is read in pieces of given sizes.
type pieces struct {
	net.Conn
	bytes *bytes.Reader
}

func (p pieces) Read(b []byte) (int, error) { return p.bytes.Read(b) }

func frame(kind, flags byte, stream byte, payload int) []byte {
	return append([]byte{0, byte(payload >> 8), byte(payload), kind, flags, 0, 0, 0, stream}, make([]byte, payload)...)
}

func FuzzFrameHeadersAreFoundHoweverTheyAreRead(f *testing.F) {
	f.Add(uint8(1), uint16(300))
	f.Add(uint8(9), uint16(0))
	f.Fuzz(func(t *testing.T, step uint8, payload uint16) {
		text := slices.Concat(make([]byte, prefaceBytes), frame(4, 0, 0, 0), frame(frameHeaders, 4, 1, 20),
			frame(frameHeaders, 4, 3, int(payload)),
			frame(frameData, 0, 1, int(payload)), frame(frameData, flagEnd, 3, 7), frame(6, flagEnd, 0, 8),
			frame(frameData, flagEnd, 1, 0), frame(frameHeaders, 4|flagEnd, 5, 3))
		a := newArrivals(pieces{bytes: bytes.NewReader(text)}, blocks.New(1<<20), func() {})
		one, three := a.order.NewPlace(), a.order.NewPlace()
		first := &arrival{conn: a, id: 1, place: one}
		a.expect(first)
		a.expect(&arrival{conn: a, id: 3, place: three})
		room := make([]byte, int(step)+1)
		for {
			if _, err := a.Read(room); err != nil {
				break
			}
		}
		if a.opened != 5 || !a.whole || a.skip != 0 || a.have != 0 {
			t.Errorf("opened %d, whole %v, %d bytes to skip, %d of a header", a.opened, a.whole, a.skip, a.have)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := three.Wait(ctx); err != nil {
			t.Error("stream 3, which was whole first, is not the first one")
		}
		if err := one.Wait(ctx); err == nil {
			t.Error("stream 1 does not wait for stream 3")
		}
		if first.received != int64(payload) {
			t.Errorf("%d bytes of stream 1 arrived, want %d", first.received, payload)
		}
		if a.forget(first); a.memory.InUse() != 0 {
			t.Errorf("%d bytes are counted at the end", a.memory.InUse())
		}
	})
}

// A message is complete before its call is: the client may still leave, or send one more.
func TestAMessageOfACallThatFailsGivesItsMemoryBack(t *testing.T) {
	open := grpc.StreamDesc{ClientStreams: true}
	for name, test := range map[string]struct {
		more func(t *testing.T, st grpc.ClientStream, leave func())
		code codes.Code
	}{
		"the client leaves": {func(_ *testing.T, _ grpc.ClientStream, leave func()) { leave() }, codes.Canceled},
		"the client sends another": {func(t *testing.T, st grpc.ClientStream, _ func()) {
			if err := st.SendMsg(numbered(1, 100_000)); err != nil {
				t.Fatal(err)
			}
		}, codes.Internal},
	} {
		for _, method := range []string{
			inference.GRPCInferenceService_ModelInfer_FullMethodName,
			inference.GRPCInferenceService_RepositoryModelLoad_FullMethodName,
		} {
			t.Run(name+method, func(t *testing.T) {
				ts := start(t, nil)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				st, err := ts.conn.NewStream(ctx, &open, method)
				if err != nil {
					t.Fatal(err)
				}
				if err := st.SendMsg(numbered(0, 100_000)); err != nil {
					t.Fatal(err)
				}
				held := func() bool { return ts.Statistics().InflightBytes > 0 }
				eventually(t, "the message", held)
				test.more(t, st, leave)
				wantStatus(t, answered(st), test.code, "")
				eventually(t, "the end of its memory", func() bool { return !held() })
			})
		}
	}
}

// TestTheServerGrantsItsWindows reads what the server tells a client first.
func TestTheServerGrantsItsWindows(t *testing.T) {
	const settings, windowUpdate, initialWindow, presetWindow = 4, 8, 4, 1<<16 - 1
	ts := start(t, nil)
	conn, err := net.Dial("tcp", ts.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(settings, 0, 0, 0)...)); err != nil {
		t.Fatal(err)
	}
	granted := map[string]uint32{}
	for len(granted) < 2 {
		var header [frameHeaderBytes]byte
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			t.Fatal(err)
		}
		payload := make([]byte, binary.BigEndian.Uint32(header[:])>>8)
		if _, err := io.ReadFull(conn, payload); err != nil {
			t.Fatal(err)
		}
		switch header[3] {
		case settings:
			for entry := range slices.Chunk(payload, 6) {
				if binary.BigEndian.Uint16(entry) == initialWindow {
					granted["call"] = binary.BigEndian.Uint32(entry[2:])
				}
			}
		case windowUpdate:
			granted["connection"] = presetWindow + binary.BigEndian.Uint32(payload)
		}
	}
	if granted["call"] != streamWindow || granted["connection"] != connectionWindow {
		t.Errorf("granted %v", granted)
	}
}
