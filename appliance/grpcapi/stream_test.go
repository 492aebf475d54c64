package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
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
		{"b", "input 'x': 'X' is no datatype, want one of BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, " +
			"FP16, FP32, FP64, BF16, BYTES"},
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
