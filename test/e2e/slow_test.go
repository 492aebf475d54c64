package e2e

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/test/real"
)

// producer sends as many texts of 64 KiB as it is asked for, each of which begins with its number. Below 0 it goes on until
// its request is cancelled: -1 looks, -2 does not. 0 asks whether it has seen that.
const producer = `import numpy as np
import triton_python_backend_utils as pb

class TritonPythonModel:
    seen = 0

    def initialize(self, args):
        family = pb.MetricFamily(name="produced_total", description="responses that were sent", kind=pb.MetricFamily.COUNTER)
        self.family, self.produced = family, family.Metric(labels={})

    def execute(self, requests):
        for request in requests:
            sender, most = request.get_response_sender(), pb.get_input_tensor_by_name(request, "N").as_numpy()[0]
            n = 0
            while n < max(most, 1) or most == -2 or most == -1 and not sender.is_cancelled():
                text = b"seen %d" % self.seen if most == 0 else b"%8d" % n + b"x" * (64 << 10)
                sender.send(pb.InferenceResponse([pb.Tensor("TEXT", np.array([text], object))]))
                self.produced.increment(1)
                n += 1
            self.seen += most < 0
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`

const producerConfiguration = `backend: "hasty"
input { name: "N" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }
model_transaction_policy { decoupled: true }`

// producerBox serves the producer by a backend that gives a cancelled request a second.
func producerBox(t *testing.T) *box {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "hasty"), os.DirFS(filepath.Join(real.Root(t), "backends/python"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "hasty", "backend.yaml")
	text, err := os.ReadFile(path)
	if err == nil {
		own := strings.Replace(string(text), "platforms: [python]", "platforms: [hasty]", 1) + "grace: 1s\n"
		err = os.WriteFile(path, []byte(own), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := serveReady(t, t.TempDir(), "--set", "engine.backends="+folder)
	b.pushPython(t, "producer", producerConfiguration, producer, nil)
	return b
}

// texts asks the producer and returns what reads the next text; io.EOF behind the last.
type texts func() (string, error)

// grpcTexts asks over gRPC.
func (b *box) grpcTexts(t *testing.T, ctx context.Context, n int32) texts {
	t.Helper()
	conn, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := inference.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(ctx)
	if err == nil {
		err = stream.Send(&inference.ModelInferRequest{
			ModelName: "producer", RawInputContents: [][]byte{binary.LittleEndian.AppendUint32(nil, uint32(n))},
			Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "N", Datatype: "INT32", Shape: []int64{1}}},
		})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() (string, error) {
		got, err := stream.Recv()
		if err != nil {
			return "", err
		}
		if got.ErrorMessage != "" {
			return "", fmt.Errorf("the stream says %s", got.ErrorMessage)
		}
		return string(got.InferResponse.RawOutputContents[0][4:]), nil
	}
}

// restTexts asks over REST.
func (b *box) restTexts(t *testing.T, ctx context.Context, n int32) texts {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/v2/models/producer/generate_stream",
		strings.NewReader(fmt.Sprintf(`{"N":%d}`, n)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewReaderSize(resp.Body, 128<<10)
	return func() (string, error) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return "", err
			}
			if _, text, ok := strings.Cut(line, `"TEXT":"`); ok {
				return strings.TrimSuffix(text, "\"}\n"), nil
			} else if line != "\n" {
				return "", fmt.Errorf("the event is %.200q", line)
			}
		}
	}
}

var askTexts = map[string]func(b *box, t *testing.T, ctx context.Context, n int32) texts{
	"gRPC": (*box).grpcTexts, "REST": (*box).restTexts,
}

// produced is how many responses the producer has sent.
func (b *box) produced(t *testing.T) (n float64) {
	t.Helper()
	_, page := b.send(http.MethodGet, "/metrics", nil)
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "produced_total{") {
			fields := strings.Fields(line)
			n, _ = strconv.ParseFloat(fields[len(fields)-1], 64)
		}
	}
	return n
}

// peakMemory is the most resident memory that a process has had, in bytes.
func peakMemory(t *testing.T, pid int) (peak int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &peak)
		}
	}
	return peak << 10
}

// TestASlowReaderHoldsNoMemory asks for 625 MiB in 10,000 responses and reads nothing until the producer waits. Then
// all of them come in order. Neither the box nor the producer ever has more than a part of them.
func TestASlowReaderHoldsNoMemory(t *testing.T) {
	t.Parallel()
	const most = 128 << 20 // bytes more than before
	for protocol, ask := range askTexts {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			b := producerBox(t)
			pids := append(childrenOf(t, b.cmd.Process.Pid), b.cmd.Process.Pid)
			before := make([]int64, len(pids))
			for i, pid := range pids {
				before[i] = peakMemory(t, pid)
			}
			next := ask(b, t, t.Context(), manyResponses)
			last := 0.0
			await(t, "the producer waits", func() bool {
				time.Sleep(500 * time.Millisecond)
				now := b.produced(t)
				waits := now > 0 && now == last
				last = now
				return waits
			})
			if last >= manyResponses {
				t.Errorf("the producer has sent all of %v responses to a client that reads nothing", last)
			}
			for i := range manyResponses {
				text, err := next()
				if err != nil || len(text) != 8+64<<10 || strings.TrimLeft(text[:8], " ") != strconv.Itoa(i) {
					t.Fatalf("response %d is %.20q, %v", i, text, err)
				}
			}
			if text, err := next(); err != io.EOF {
				t.Errorf("after the last response: %.200q, %v", text, err)
			}
			for i, pid := range pids {
				now := peakMemory(t, pid)
				t.Logf("process %d: %d MiB before, at most %d MiB; %v responses were sent before one was read", pid, before[i]>>20, now>>20, last)
				if now > before[i]+most {
					t.Errorf("process %d had %d bytes before, and %d at most", pid, before[i], now)
				}
			}
			b.stop()
		})
	}
}

// TestAProducerLearnsThatItsClientIsGone leaves streams of a producer that looks, which goes on in its process, and of one
// that does not: the request ends all the same, and the process after the grace of its backend.
func TestAProducerLearnsThatItsClientIsGone(t *testing.T) {
	t.Parallel()
	for protocol, ask := range askTexts {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			b := producerBox(t)
			leave := func(n int32) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if _, err := ask(b, t, ctx, n)(); err != nil {
					t.Fatal(err)
				}
			}
			failed := func(n uint64) func() bool {
				return func() bool {
					stats, err := b.client.Statistics(t.Context(), edgewise.ModelID{Name: "producer"})
					return err == nil && stats.ModelStats[0].InferenceStats.Fail.Count == n
				}
			}
			pid := childrenOf(t, b.cmd.Process.Pid)
			leave(-1)
			await(t, "the request ends", failed(1))
			if text, err := ask(b, t, t.Context(), 0)(); err != nil || text != "seen 1" {
				t.Errorf("the producer that looks: %.20q, %v", text, err)
			}
			if now := childrenOf(t, b.cmd.Process.Pid); len(now) != 1 || now[0] != pid[0] {
				t.Errorf("the process was %v, and is %v", pid, now)
			}
			leave(-2)
			await(t, "the request ends", failed(2))
			await(t, "the model answers again", func() bool {
				text, err := ask(b, t, t.Context(), 0)()
				return err == nil && text == "seen 0"
			})
			contains(t, "the log", b.output(), "went on for 1s after it was cancelled")
			b.stop()
		})
	}
}
