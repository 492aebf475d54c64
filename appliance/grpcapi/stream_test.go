package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

type stream = grpc.BidiStreamingClient[inference.ModelInferRequest, inference.ModelStreamInferResponse]

func (ts *testServer) openStream(t *testing.T, ctx context.Context) stream {
	t.Helper()
	st, err := ts.client.ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func send(t *testing.T, st stream, id string, n int, change func(r *request)) {
	t.Helper()
	r := raw(n)
	r.Id = id
	if change != nil {
		change(r)
	}
	if err := st.Send(r); err != nil {
		t.Fatal(err)
	}
}

func TestStreamKeepsOrder(t *testing.T) {
	ts := start(t, nil)
	ts.engine.onInfer(func(_ context.Context, req *edgewise.Request) error {
		time.Sleep(time.Duration(len(req.Inputs[0].Data)%7) * time.Millisecond)
		return nil
	})
	st := ts.openStream(t, t.Context())
	const n = 3 * maxPending
	go func() {
		for i := range n {
			r := raw(5000 + i*13)
			r.Id = fmt.Sprint(i)
			if st.Send(r) != nil {
				return
			}
		}
		_ = st.CloseSend()
	}()
	for i := range n {
		got, err := st.Recv()
		if err != nil || got.ErrorMessage != "" || got.InferResponse.Id != fmt.Sprint(i) ||
			len(got.InferResponse.RawOutputContents[0]) != 5000+i*13 {
			t.Fatalf("answer %d: %.200v, %v", i, got, err)
		}
		if got.InferResponse.RawOutputContents[0][1] != 7 {
			t.Fatalf("answer %d came back changed", i)
		}
	}
	if _, err := st.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the half-close: %v", err)
	}
	eventually(t, "the release of every answer", func() bool { return ts.engine.released.Load() == n })
}

func TestStreamErrorsAreMessages(t *testing.T) {
	ts := start(t, nil)
	st := ts.openStream(t, t.Context())
	send(t, st, "a", 1, func(r *request) { r.ModelName = "dog" })
	send(t, st, "b", 1, func(r *request) { r.Inputs[0].Datatype = "X" })
	send(t, st, "c", 1, nil)
	for _, want := range []struct{ id, text string }{
		{"a", "Request for unknown model: 'dog' is not found"},
		{"b", "input 'x': 'X' is no datatype: want one of " + kserve.Datatypes()},
		{"c", ""},
	} {
		got, err := st.Recv()
		if err != nil || got.ErrorMessage != want.text || got.InferResponse.GetId() != want.id {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
}

func TestStreamErrorEndsItWhenTheClientAsks(t *testing.T) {
	ts := start(t, nil)
	st := ts.openStream(t, metadata.AppendToOutgoingContext(t.Context(), "triton_grpc_error", "true"))
	send(t, st, "a", 1, nil)
	if got, err := st.Recv(); err != nil || got.InferResponse.Id != "a" {
		t.Errorf("got %v, %v", got, err)
	}
	send(t, st, "b", 1, func(r *request) { r.ModelName = "dog" })
	_, err := st.Recv()
	wantStatus(t, err, codes.NotFound, "Request for unknown model: 'dog' is not found")
}

func TestStreamFinalResponse(t *testing.T) {
	ts := start(t, nil)
	st := ts.openStream(t, t.Context())
	send(t, st, "a", 1, nil)
	send(t, st, "b", 1, func(r *request) { r.Parameters = params{"triton_enable_empty_final_response": boolParam(true)} })
	for _, want := range []bool{false, true} {
		got, err := st.Recv()
		if err != nil {
			t.Fatal(err)
		}
		final, there := got.InferResponse.Parameters["triton_final_response"]
		if there != want || final.GetBoolParam() != want {
			t.Errorf("request %s: parameters %v", got.InferResponse.Id, got.InferResponse.Parameters)
		}
	}
}

func TestStreamCancelReachesEveryRequest(t *testing.T) {
	ts := start(t, nil)
	begun, ended := make(chan struct{}, 8), make(chan struct{}, 8)
	ts.engine.onInfer(func(ctx context.Context, _ *edgewise.Request) error {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	st := ts.openStream(t, ctx)
	for range 8 {
		send(t, st, "a", 1, nil)
	}
	for range 8 {
		<-begun
	}
	cancel()
	for range 8 {
		<-ended
	}
	_, err := st.Recv()
	wantStatus(t, err, codes.Canceled, "")
}

func TestStreamSurvivesAPanic(t *testing.T) {
	ts := start(t, nil)
	ts.engine.onInfer(func(_ context.Context, req *edgewise.Request) error {
		if req.ID == "a" {
			panic("oops")
		}
		return nil
	})
	st := ts.openStream(t, t.Context())
	send(t, st, "a", 1, nil)
	send(t, st, "b", 1, nil)
	if got, err := st.Recv(); err != nil || got.ErrorMessage != "internal error; the server's log has the details" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := st.Recv(); err != nil || got.InferResponse.Id != "b" || ts.Statistics().Panics != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestAPanicWhileARequestIsReadCostsThatRequestAlone has panics outside of the handlers: in the codec, which borrows the
// memory of a model, and where a stream's reader parses.
func TestAPanicWhileARequestIsReadCostsThatRequestAlone(t *testing.T) {
	refused := raw(1)
	refused.ModelName, refused.Inputs[0].Datatype = panicsWhenRefused, "X"
	for name, req := range map[string]*request{"codec": raw(100_000), "parse": refused} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, nil)
			ts.deps.AllocBody = func(edgewise.ModelID, int) ([]byte, func()) { panic("a secret") }
			const text = "internal error; the server's log has the details"
			_, err := ts.client.ModelInfer(t.Context(), req)
			wantStatus(t, err, codes.Internal, text)
			st := ts.openStream(t, t.Context())
			if err := st.Send(req); err != nil {
				t.Fatal(err)
			}
			send(t, st, "b", 1, nil)
			if got, err := st.Recv(); err != nil || got.ErrorMessage != text {
				t.Errorf("got %v, %v", got, err)
			}
			if got, err := st.Recv(); err != nil || got.InferResponse.Id != "b" || ts.Statistics().Panics != 2 {
				t.Errorf("got %v, %v; %d panics", got, err, ts.Statistics().Panics)
			}
			eventually(t, "the return of all memory", func() bool { return ts.memory.InUse() == 0 })
		})
	}
}

// fakeStream is the server's side of a stream on which messages have arrived that are all the same.
type fakeStream struct {
	grpc.ServerStream
	ctx      context.Context
	messages int // that are left to read
	message  []byte
	sent     atomic.Int64
}

func (f *fakeStream) Context() context.Context { return f.ctx }

func (f *fakeStream) RecvMsg(m any) error {
	if f.messages == 0 {
		<-f.ctx.Done()
		return f.ctx.Err()
	}
	f.messages--
	m.(*received).bytes = f.message
	return nil
}

func (f *fakeStream) SendMsg(m any) error {
	f.sent.Add(1)
	if r, ok := m.(*reply); ok {
		r.resp.Release()
	}
	return nil
}

// TestStreamEndsWithAnAnswerToEveryRequestThatHasStarted ends a stream while it has as many requests as it may have.
func TestStreamEndsWithAnAnswerToEveryRequestThatHasStarted(t *testing.T) {
	message, err := proto.Marshal(raw(8))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s, engine := newServer(t)
		var started atomic.Int64
		release := make(chan struct{})
		engine.onInfer(func(context.Context, *edgewise.Request) error {
			started.Add(1)
			<-release
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		st := &fakeStream{ctx: ctx, messages: 2 * maxPending, message: message}
		ended := make(chan error, 1)
		go func() { ended <- s.stream(st) }()
		synctest.Wait()
		if n := started.Load(); n != maxPending {
			t.Errorf("%d requests of a stream are in progress, want %d", n, maxPending)
		}
		close(s.draining)
		synctest.Wait()
		close(release)
		if err := <-ended; edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("the stream ended with %v", err)
		}
		if sent := st.sent.Load(); sent < started.Load() {
			t.Errorf("%d of %d requests that had started were answered", sent, started.Load())
		}
		cancel()
	})
}

// TestARequestOfAStreamIsQueuedBeforeItStarts: a handler that looks into the queue when the server stops finds it.
func TestARequestOfAStreamIsQueuedBeforeItStarts(t *testing.T) {
	message, err := proto.Marshal(raw(8))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s, engine := newServer(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := &reader{
			server: s, stream: &fakeStream{ctx: ctx, messages: 1, message: message}, queue: make(chan *pending),
			ended: make(chan error, 1),
		}
		go r.read(ctx)
		synctest.Wait()
		if n := engine.infers.Load(); n != 0 {
			t.Errorf("%d requests have started that are not in the queue", n)
		}
		p := <-r.queue
		<-p.done
		if p.err != nil || engine.infers.Load() != 1 {
			t.Errorf("%v, %d requests have started", p.err, engine.infers.Load())
		}
		p.drop()
	})
}
