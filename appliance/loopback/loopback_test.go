package loopback

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

// answering is a model that is a function.
type answering func(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error)

func (a answering) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	return a(ctx, req)
}

// echo answers with the inputs.
func echo(_ context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	return &edgewise.Response{Model: req.Model, Outputs: req.Inputs}, nil
}

// open makes a Loopback to which m answers.
func open(t testing.TB, m Model) *Loopback {
	t.Helper()
	l, err := New(Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	l.Serve(&m)
	return l
}

// request has one input of so many bytes.
func request(size int) *edgewise.Request {
	data := bytes.Repeat([]byte("edgewise"), size/8)
	return &edgewise.Request{
		Model:  edgewise.ModelID{Name: "m", Version: 3},
		Inputs: []edgewise.Tensor{{Name: "x", Type: edgewise.Uint8, Shape: edgewise.Shape{int64(len(data))}, Data: data}},
	}
}

func TestRequestsAreAnsweredByTheModelThatIsServed(t *testing.T) {
	var seen edgewise.Request
	l := open(t, Model{Inferer: answering(func(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
		seen = *req
		return echo(ctx, req)
	})})
	for _, size := range []int{8, 1 << 20} {
		req := request(size)
		req.Sequence = edgewise.Sequence{ID: 7, Start: true, End: true}
		resp, err := l.Infer(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.Outputs) != 1 || !bytes.Equal(resp.Outputs[0].Data, req.Inputs[0].Data) {
			t.Errorf("%d bytes: another answer came back", size)
		}
		resp.Release()
		if seen.Model != req.Model || seen.Sequence != req.Sequence {
			t.Errorf("%+v", seen)
		}
	}
	l.Serve(nil)
	if _, err := l.Infer(t.Context(), request(8)); edgewise.KindOf(err) != edgewise.Unavailable {
		t.Error(err)
	}
}

func TestLargeTensorsArriveInMemoryOfTheModel(t *testing.T) {
	var freed atomic.Int64
	room := make([]byte, 1<<20)
	l := open(t, Model{
		Inferer: answering(func(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
			if &req.Inputs[0].Data[0] != &room[0] {
				t.Error("they were copied elsewhere")
			}
			return echo(ctx, req)
		}),
		AllocBody: func(n int) ([]byte, func()) { return room[:n], func() { freed.Add(1) } },
	})
	resp, err := l.Infer(t.Context(), request(len(room)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Release()
	if err := l.Close(); err != nil || freed.Load() != 1 {
		t.Errorf("freed %d times, %v", freed.Load(), err)
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	for _, kind := range []edgewise.Kind{edgewise.Busy, edgewise.Deadline, edgewise.Invalid, edgewise.Unavailable, edgewise.Internal} {
		l := open(t, Model{Inferer: answering(func(context.Context, *edgewise.Request) (*edgewise.Response, error) {
			return nil, edgewise.Errorf("test", kind, "something is wrong")
		})})
		_, err := l.Infer(t.Context(), request(8))
		if edgewise.KindOf(err) != kind || !strings.Contains(err.Error(), "something is wrong") {
			t.Errorf("%v became %v", kind, err)
		}
	}
}

// TestARequestEndsWithItsCaller holds that the model is not left to find out by the connection, at which the frontend looks
// from time to time.
func TestARequestEndsWithItsCaller(t *testing.T) {
	arrived, cause := make(chan struct{}), make(chan error, 1)
	l := open(t, Model{Inferer: answering(func(ctx context.Context, _ *edgewise.Request) (*edgewise.Response, error) {
		close(arrived)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil, ctx.Err()
	})})
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the caller has left")
	go func() {
		<-arrived
		cancel(left)
	}()
	if _, err := l.Infer(ctx, request(8)); edgewise.KindOf(err) != edgewise.Canceled {
		t.Error(err)
	}
	if err := <-cause; !errors.Is(err, left) {
		t.Error(err)
	}
}

func TestABoundedNumberOfRequestsIsSentAtATime(t *testing.T) {
	var now, most atomic.Int64
	full := make(chan struct{})
	fill := sync.OnceFunc(func() { close(full) }) // so many may be in progress more than once
	l := open(t, Model{Inferer: answering(func(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == Connections {
			fill()
		}
		<-full
		return echo(ctx, req)
	})})
	var work sync.WaitGroup
	for range 2 * Connections {
		work.Go(func() {
			resp, err := l.Infer(t.Context(), request(8))
			if err != nil {
				t.Error(err)
			}
			resp.Release()
		})
	}
	work.Wait()
	if most.Load() != Connections {
		t.Errorf("%d requests were in progress", most.Load())
	}
}

func TestNobodyElseCanConnect(t *testing.T) {
	ours, theirs, err := pair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	if c, err := net.Dial("tcp", ours.RemoteAddr().String()); err == nil {
		_ = c.Close()
		t.Error("another connection was made")
	}
	l := newListener()
	_ = l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := l.dial(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

func BenchmarkInfer(b *testing.B) {
	l := open(b, Model{Inferer: answering(echo)})
	for _, size := range []int{64, 600 << 10} {
		req := request(size)
		b.Run("", func(b *testing.B) {
			for b.Loop() {
				resp, err := l.Infer(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				resp.Release()
			}
		})
	}
}
