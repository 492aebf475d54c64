package isolation

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/appliance"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/test/isolation/faulty"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// faultyBox serves a box from this process, whose children are made of the faulty backend, and returns its client.
func faultyBox(t *testing.T) *client.Client {
	t.Helper()
	_, box := serve(t, slog.New(slog.DiscardHandler))
	return box
}

// serve is faultyBox with a log. It returns the address, too.
func serve(t *testing.T, logger *slog.Logger) (net.Addr, *client.Client) {
	t.Helper()
	c := config.Default()
	c.Auth, c.GRPC.Address, c.Metrics.Address = config.AuthOpen, "127.0.0.1:0", ""
	c.DataDir, c.HTTP.Address, c.Store.ReserveBytes, c.ONNX.Library = t.TempDir(), "127.0.0.1:0", 0, real.Library(t)
	app, err := appliance.New(c, logger)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	listening, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- app.Run(ctx, nil, appliance.Hooks{Listening: func(a net.Addr) { listening <- a }})
	}()
	var address net.Addr
	select {
	case address = <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	box, err := client.New("http://" + address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	eventually(t, "a live box", func() bool { return box.Live(t.Context()) == nil })
	return address, box
}

// push uploads a perceptron under a name.
func push(ctx context.Context, box *client.Client, name string) error {
	return pushModel(ctx, box, name, onnxgen.MLP(1).Bytes())
}

// pushModel uploads a model under a name.
func pushModel(ctx context.Context, box *client.Client, name string, model []byte) error {
	content, sent := string(model), false
	_, err := box.Push(ctx, edgewise.Upload{Model: name, Size: int64(len(content)), Next: func() (string, int64, io.Reader, error) {
		if sent {
			return "", 0, nil, io.EOF
		}
		sent = true
		return "model.onnx", int64(len(content)), strings.NewReader(content), nil
	}}, true, nil)
	return err
}

// ask sends a request whose input begins with a byte.
func ask(ctx context.Context, box *client.Client, name string, begin byte) error {
	in := edgewise.Tensor{Name: "input", Type: edgewise.FP32, Shape: edgewise.Shape{1, 64}, Data: make([]byte, 256)}
	in.Data[0] = begin
	r, err := box.Infer(ctx, &edgewise.Request{Model: edgewise.ModelID{Name: name}, Inputs: []edgewise.Tensor{in}})
	if err != nil {
		return err
	}
	defer r.Release()
	if len(r.Outputs) != 1 || len(r.Outputs[0].Data) != 40 {
		return errors.New("an answer of another kind")
	}
	return nil
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// TestACrashOfOneModelFailsNoRequestOfOthers lets one model crash in its runs until it is quarantined, and another one
// in its loads, while 16 clients use two more.
func TestACrashOfOneModelFailsNoRequestOfOthers(t *testing.T) {
	box := faultyBox(t)
	for _, name := range []string{"good-a", "good-b", faulty.InRun} {
		if err := push(t.Context(), box, name); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var answered atomic.Int64
	var clients sync.WaitGroup
	for c := range 16 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if err := ask(t.Context(), box, []string{"good-a", "good-b"}[c%2], 0); err != nil {
					t.Errorf("a request to another model: %v", err)
				}
				answered.Add(1)
			}
		})
	}
	for range 5 {
		eventually(t, "an answer", func() bool { return ask(t.Context(), box, faulty.InRun, 0) == nil })
		err := ask(t.Context(), box, faulty.InRun, faulty.Poison)
		if edgewise.KindOf(err) != edgewise.Unavailable || !strings.Contains(err.Error(), "died (signal: segmentation fault) while running") {
			t.Errorf("the request that crashed: %v", err)
		}
		if err := push(t.Context(), box, faulty.InLoad); err == nil ||
			!strings.Contains(err.Error(), "died (signal: segmentation fault) while loading") {
			t.Errorf("the load that crashed: %v", err)
		}
	}
	quarantined(t, box)
	stop()
	clients.Wait()
	if answered.Load() < 100 {
		t.Errorf("only %d requests to other models", answered.Load())
	}
}

// quarantined wants the model that crashes in its runs to be out of service, with the reason, until it is loaded again.
func quarantined(t *testing.T, box *client.Client) {
	t.Helper()
	const reason = "its process died 5 times within 10m0s, the last time with: signal: segmentation fault"
	eventually(t, "the quarantine", func() bool {
		index, err := box.Index(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range index {
			if entry.Name == faulty.InRun && entry.State == "UNAVAILABLE" && strings.Contains(entry.Reason, reason) {
				return true
			}
		}
		return false
	})
	m, err := box.Model(t.Context(), faulty.InRun)
	if err != nil || m.Versions[0].State != "UNAVAILABLE" || !strings.Contains(m.Versions[0].Reason, reason) {
		t.Errorf("%+v, error %v", m, err)
	}
	if err := ask(t.Context(), box, faulty.InRun, 0); edgewise.KindOf(err) != edgewise.Unavailable || !strings.Contains(err.Error(), reason) {
		t.Errorf("a request to it: %v", err)
	}
	if err := box.Load(t.Context(), faulty.InRun); err != nil {
		t.Error(err)
	}
	if err := ask(t.Context(), box, faulty.InRun, 0); err != nil {
		t.Errorf("after it was loaded again: %v", err)
	}
}
