//go:build cluster

package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edgewise-ai/edgewise/api/inference"
)

// requestTimeout bounds one request of the load.
const requestTimeout = time.Minute

// load are clients that ask a service until they are told to stop. None of them tries a request again by itself: what
// fails is counted.
type load struct {
	clients []*client
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu     sync.Mutex
	failed []string // the first of what went wrong
}

// client is one way to ask.
type client struct {
	name       string
	ask        func(ctx context.Context, x float32) (y float32, err error)
	pause      time.Duration
	sent, lost atomic.Int64
}

// startLoad begins to ask the service at an address: over connections that are kept, busy and mostly idle, over a new one for each
// request, and over gRPC.
func startLoad(t *testing.T, address string) *load {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &load{stop: stop}
	for i := range 3 {
		l.add(fmt.Sprint("REST, kept ", i), restClient(address, host, false), 20*time.Millisecond)
		l.add(fmt.Sprint("gRPC ", i), grpcClient(t, address), 20*time.Millisecond)
	}
	l.add("REST, new each time", restClient(address, host, true), 50*time.Millisecond)
	l.add("REST, mostly idle", restClient(address, host, false), 3*time.Second)
	l.add("gRPC, mostly idle", grpcClient(t, address), 3*time.Second)
	for _, c := range l.clients {
		l.work.Go(func() { l.run(ctx, c) })
	}
	t.Cleanup(func() { l.end() })
	return l
}

func (l *load) add(name string, ask func(context.Context, float32) (float32, error), pause time.Duration) {
	l.clients = append(l.clients, &client{name: name, ask: ask, pause: pause})
}

// run asks as one client until ctx ends. A request that was sent is waited for.
func (l *load) run(ctx context.Context, c *client) {
	pace := time.NewTicker(c.pause)
	defer pace.Stop()
	for x := float32(1); ; x++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		limited, cancel := context.WithTimeout(context.Background(), requestTimeout)
		y, err := c.ask(limited, x)
		cancel()
		c.sent.Add(1)
		if err == nil && y != x+bias {
			err = fmt.Errorf("the answer to %v is %v", x, y)
		}
		if err != nil {
			l.lose(c, err)
		}
	}
}

func (l *load) lose(c *client, err error) {
	c.lost.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) < 20 {
		l.failed = append(l.failed, fmt.Sprintf("%s %s: %v", time.Now().Format(time.TimeOnly), c.name, err))
	}
}

// end stops the clients, and waits for them.
func (l *load) end() {
	l.stop()
	l.work.Wait()
}

// counts returns how many requests were sent so far over either protocol, and how many have failed.
func (l *load) counts() (rest, rpc, lost int64) {
	for _, c := range l.clients {
		if strings.HasPrefix(c.name, "gRPC") {
			rpc += c.sent.Load()
		} else {
			rest += c.sent.Load()
		}
		lost += c.lost.Load()
	}
	return rest, rpc, lost
}

// wantNoneLost claims that every request so far was answered, and that each client has sent some.
func (l *load) wantNoneLost(t *testing.T) {
	t.Helper()
	for _, c := range l.clients {
		t.Logf("%-20s %7d requests, %d failed", c.name, c.sent.Load(), c.lost.Load())
		if c.sent.Load() == 0 {
			t.Errorf("%s has sent nothing", c.name)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) > 0 {
		t.Errorf("requests have failed, the first of them:\n%s", strings.Join(l.failed, "\n"))
	}
}

// host is the name by which clients in the cluster address the boxes; a name service is not run here.
const host = "box-edgewise." + space + ".svc.cluster.local"

// restClient asks over HTTP.
func restClient(address, host string, fresh bool) func(context.Context, float32) (float32, error) {
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: fresh}}
	return func(ctx context.Context, x float32) (float32, error) {
		body := fmt.Appendf(nil, `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[%v]}]}`, x)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+":8000/v2/models/bias/infer", bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		request.Host = host
		response, err := c.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		var answer struct{ Outputs []struct{ Data []float32 } }
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil || response.StatusCode != http.StatusOK || len(answer.Outputs) != 1 || len(answer.Outputs[0].Data) != 1 {
			return 0, fmt.Errorf("%d %.300s: %w", response.StatusCode, text, err)
		}
		return answer.Outputs[0].Data[0], nil
	}
}

// grpcClient asks over a connection of its own.
func grpcClient(t *testing.T, address string) func(context.Context, float32) (float32, error) {
	t.Helper()
	connection, err := grpc.NewClient("passthrough:///"+address+":8001", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	stub := inference.NewGRPCInferenceServiceClient(connection)
	return func(ctx context.Context, x float32) (float32, error) {
		answer, err := stub.ModelInfer(ctx, &inference.ModelInferRequest{
			ModelName:        "bias",
			Inputs:           []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1, 1}}},
			RawInputContents: [][]byte{binary.LittleEndian.AppendUint32(nil, math.Float32bits(x))},
		})
		if err != nil {
			return 0, err
		}
		if len(answer.RawOutputContents) != 1 || len(answer.RawOutputContents[0]) != 4 {
			return 0, fmt.Errorf("%d outputs", len(answer.RawOutputContents))
		}
		return math.Float32frombits(binary.LittleEndian.Uint32(answer.RawOutputContents[0])), nil
	}
}
