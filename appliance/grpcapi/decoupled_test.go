package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/ordering"
)

// talk changes a request into one to the decoupled model.
func talk(n int64, more params) func(*request) {
	return func(r *request) {
		r.ModelName, r.Parameters = "talker", params{"n": intParam(n)}
		for key, value := range more {
			r.Parameters[key] = value
		}
	}
}

func TestModelInferRefusesDecoupledModels(t *testing.T) {
	ts := start(t, nil)
	r := raw(1)
	talk(1, nil)(r)
	_, err := ts.client.ModelInfer(t.Context(), r)
	wantStatus(t, err, codes.Unimplemented, "ModelInfer RPC doesn't support models with decoupled transaction policy")
}

// hear reads messages of a stream until a request has had as many as it should, and describes them.
func hear(t *testing.T, st stream, n int) (heard []string) {
	t.Helper()
	for range n {
		got, err := st.Recv()
		if err != nil {
			t.Fatal(err)
		}
		resp := got.InferResponse
		text := fmt.Sprintf("%s %s", resp.ModelName, resp.Id)
		if i, ok := resp.Parameters["i"]; ok {
			text += fmt.Sprintf(" %d", i.GetInt64Param())
		}
		if final, ok := resp.Parameters["triton_final_response"]; ok {
			text += fmt.Sprintf(" %v", final.GetBoolParam())
		}
		if got.ErrorMessage != "" {
			text += " " + got.ErrorMessage
		}
		heard = append(heard, text)
	}
	return heard
}

func TestAStreamHasEachResponse(t *testing.T) {
	tests := []struct {
		name string
		n    int64
		more params
		want []string
	}{
		{"one", 1, nil, []string{"talker a 0 false"}},
		{"none", 0, nil, nil},
		{
			"an end that is wanted", 2,
			params{"triton_enable_empty_final_response": boolParam(true)},
			[]string{"talker a 0 false", "talker a 1 false", "talker a true"},
		},
		{
			"a faulty one", 3,
			params{"fault": intParam(1)},
			[]string{"talker a 0 false", "talker a false not this one", "talker a 2 false"},
		},
		{"an error", 3, params{"fail": intParam(1)}, []string{"talker a 0 false", "talker a true enough"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ts := start(t, nil)
			st := ts.openStream(t, t.Context())
			send(t, st, "a", 1, talk(test.n, test.more))
			if err := st.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if got := hear(t, st, len(test.want)); fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if _, err := st.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("after the last: %v", err)
			}
			eventually(t, "the release of every response", func() bool { return ts.engine.released.Load() == ts.engine.talked.Load() })
		})
	}
}

// TestADecoupledModelDoesNotWaitForOthers has a request that is answered only after all responses to a later one.
func TestADecoupledModelDoesNotWaitForOthers(t *testing.T) {
	ts, proceed := start(t, nil), make(chan struct{})
	ts.engine.onInfer(func(_ context.Context, req *edgewise.Request) error {
		if req.ID == "slow" {
			<-proceed
		}
		return nil
	})
	st := ts.openStream(t, t.Context())
	send(t, st, "slow", 1, nil)
	send(t, st, "b", 1, talk(100, nil))
	send(t, st, "c", 1, nil)
	for i, got := range hear(t, st, 100) {
		if got != fmt.Sprintf("talker b %d false", i) {
			t.Fatalf("response %d: %s", i, got)
		}
	}
	close(proceed)
	if got := hear(t, st, 2); got[0] != "echo slow" || got[1] != "echo c" {
		t.Errorf("%q", got)
	}
}

// TestAReaderHoldsTheModelBack reads nothing: the model stops when the window of the transport is full, and goes on.
func TestAReaderHoldsTheModelBack(t *testing.T) {
	ts := start(t, nil)
	const n, size = 10_000, 1000
	st := ts.openStream(t, t.Context())
	send(t, st, "a", size, talk(n, nil))
	if got := hear(t, st, 1); got[0] != "talker a 0 false" {
		t.Fatal(got)
	}
	held := int64(0)
	eventually(t, "the model waits", func() bool {
		before := held
		held = ts.engine.talked.Load()
		return held == before
	})
	if held > n/10 {
		t.Errorf("%d responses of %d were made for a reader that has read one", held, n)
	}
	for i, got := range hear(t, st, n-1) {
		if got != fmt.Sprintf("talker a %d false", i+1) {
			t.Fatalf("response %d: %s", i+1, got)
		}
	}
}

func TestAStreamThatEndsCancelsItsRequests(t *testing.T) {
	ts, begun, ended := start(t, nil), make(chan struct{}, 8), make(chan error, 8)
	ts.engine.onInfer(func(ctx context.Context, req *edgewise.Request) error {
		begun <- struct{}{}
		context.AfterFunc(ctx, func() { ended <- ctx.Err() })
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	st := ts.openStream(t, ctx)
	for range 8 {
		send(t, st, "a", 1000, talk(1<<40, nil))
	}
	hear(t, st, 100)
	for range 8 {
		<-begun // a request that is still on its way when the stream ends never begins
	}
	cancel()
	for range 8 {
		<-ended
	}
}

// TestDecoupledRequestsOfAStreamAreBounded sends more requests than may be in progress.
func TestDecoupledRequestsOfAStreamAreBounded(t *testing.T) {
	ts := start(t, nil)
	begun, proceed := make(chan struct{}, 2*maxPending), make(chan struct{})
	ts.engine.onQueue(func(ctx context.Context, _ *edgewise.Request) error {
		ordering.Queued(ctx)
		begun <- struct{}{}
		<-proceed
		return nil
	})
	st := ts.openStream(t, t.Context())
	for i := range 2 * maxPending {
		send(t, st, fmt.Sprint(i), 1, talk(1, nil))
	}
	for range maxPending {
		<-begun
	}
	if n := len(begun); n > 0 {
		t.Errorf("%d requests more than %d were begun", n, maxPending)
	}
	close(proceed)
	hear(t, st, 2*maxPending)
}
