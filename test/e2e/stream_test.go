package e2e

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/test/real"
)

// counterStep is decoupled: it answers x with the numbers below it, one in each response, and then an end.
const counterStep = `
(import "edgewise_v1" "emit" (func $emit (param i32) (result i32)))
(memory (export "memory") 2)
(data (i32.const 100) "\90\00\00\00{\22name\22:\22count\22,\22decoupled\22:true,"
  "\22inputs\22:[{\22name\22:\22x\22,\22datatype\22:\22INT32\22,\22shape\22:[1]}],"
  "\22outputs\22:[{\22name\22:\22x\22,\22datatype\22:\22INT32\22,\22shape\22:[1]}]}")
(func (export "edgewise_step_v1"))
(func (export "edgewise_alloc") (param i32 i32) (result i32) i32.const 4096)
(func (export "edgewise_describe") (result i32) i32.const 100)
(func (export "edgewise_process") (param $in i32) (result i32) (local $d i32) (local $n i32) (local $i i32)
  (local.set $d (i32.load (i32.add (local.get $in) (i32.const 28))))
  (local.set $n (i32.load (local.get $d)))
  block $end loop $next
    (br_if $end (i32.ge_s (local.get $i) (local.get $n)))
    (i32.store (local.get $d) (local.get $i))
    (local.set $i (i32.add (local.get $i) (i32.const 1)))
    (br_if $next (i32.eqz (call $emit (local.get $in))))
  end end
  i32.const 2048)`

const (
	manyResponses = 10_000
	endless       = 1<<31 - 1
)

// counterBox serves the step.
func counterBox(t *testing.T) *box {
	t.Helper()
	b := serveReady(t, t.TempDir())
	b.must("model", "push", "count", step(t, counterStep))
	return b
}

// counted returns how many requests to the step have ended so, and how many of its responses nobody read.
func (b *box) counted(t *testing.T) (success, fail uint64) {
	t.Helper()
	all, err := b.client.Statistics(t.Context(), edgewise.ModelID{Name: "count"})
	if err != nil {
		t.Fatal(err)
	}
	return all.ModelStats[0].InferenceStats.Success.Count, all.ModelStats[0].InferenceStats.Fail.Count
}

// canceled waits until a request to the step has failed.
func (b *box) canceled(t *testing.T) {
	t.Helper()
	await(t, "the end of the producer", func() bool {
		_, fail := b.counted(t)
		return fail > 0
	})
}

// TestManyResponsesArriveInOrder reads the first of many responses, and the others when the box has had to wait.
func TestManyResponsesArriveInOrder(t *testing.T) {
	t.Parallel()
	b := counterBox(t)
	t.Run("gRPC", func(t *testing.T) {
		st := b.stream(t, t.Context())
		askCount(t, st, manyResponses)
		for i := range manyResponses {
			if got := recvCount(t, st); got != i {
				t.Fatalf("response %d is %d", i, got)
			}
		}
		if last, err := st.Recv(); err != nil || !last.InferResponse.Parameters["triton_final_response"].GetBoolParam() {
			t.Errorf("the end: %v, %v", last, err)
		}
	})
	t.Run("REST", func(t *testing.T) {
		events := b.events(t, t.Context(), manyResponses)
		for i := range manyResponses {
			want := fmt.Sprintf(`data: {"model_name":"count","model_version":"1","x":%d}`, i)
			if got := events(); got != want {
				t.Fatalf("event %d is %s", i, got)
			}
		}
		if got := events(); got != "EOF" {
			t.Errorf("after the last event: %s", got)
		}
	})
	if success, fail := b.counted(t); success != 2 || fail != 0 {
		t.Errorf("%d requests have succeeded, %d failed", success, fail)
	}
	b.stop()
}

// TestAStreamThatNobodyReadsEnds leaves streams in different ways. The step would go on for hours.
func TestAStreamThatNobodyReadsEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, b *box, ctx context.Context)
	}{
		{"gRPC", func(t *testing.T, b *box, ctx context.Context) {
			st := b.stream(t, ctx)
			askCount(t, st, endless)
			recvCount(t, st)
		}},
		{"REST", func(t *testing.T, b *box, ctx context.Context) { b.events(t, ctx, endless)() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := counterBox(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			test.run(t, b, ctx)
			cancel()
			b.canceled(t)
			events := b.events(t, t.Context(), 1)
			if got := events(); !strings.HasSuffix(got, `"x":0}`) {
				t.Errorf("the step does not answer any more: %s", got)
			}
			b.stop()
		})
	}
}

// TestTheCommandPrintsEachResponseOfADecoupledModel as it comes, until the last, its time or Ctrl-C.
func TestTheCommandPrintsEachResponseOfADecoupledModel(t *testing.T) {
	t.Parallel()
	b := counterBox(t)
	number := func(n int) string { return "x=" + write(t, "x.json", fmt.Appendf(nil, "[%d]", n)) }
	const line = `{"model_name":"count","model_version":"1","x":%d}` + "\n"
	if got := b.must("infer", "count", "-i", number(3)); got != fmt.Sprintf(line+line+line, 0, 1, 2) {
		t.Errorf("printed %s", got)
	}
	if got := b.must("infer", "count", "-i", number(0)); got != "" {
		t.Errorf("printed %s for no response", got)
	}
	b.refuses(2, []string{"--save", "decoupled"}, "infer", "count", "-i", number(3), "--save", t.TempDir())
	out, stderr, code := b.run("infer", "count", "-i", number(endless), "--timeout", "200ms")
	if code != 5 || !strings.Contains(stderr, "deadline") {
		t.Errorf("at the end of its time: exit code %d: %s, %.100s", code, stderr, out)
	}
	b.canceled(t)
	_, before := b.counted(t)
	interruptUnread(t, fmt.Sprintf(line, 0), "--server", b.url, "infer", "count", "-i", number(endless))
	await(t, "the end of the producer", func() bool {
		_, fail := b.counted(t)
		return fail > before
	})
	b.refuses(4, []string{"decoupled"}, "golden", "add", "count", "-i", number(3))
	b.stop()
}

// interruptUnread runs a command that prints without end, reads its first line and no more, and interrupts it when it can
// print nothing any more.
func interruptUnread(t *testing.T, want string, arguments ...string) {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	const room = 4096
	if n, err := unix.FcntlInt(from.Fd(), unix.F_SETPIPE_SZ, room); err != nil || n != room {
		t.Fatalf("a pipe of %d bytes: %v", n, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, real.Program(t), arguments...)
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = to, &stderr
	err = cmd.Start()
	_ = to.Close()
	if err != nil {
		t.Fatal(err)
	}
	if first, err := bufio.NewReaderSize(from, 64).ReadString('\n'); err != nil || first != want {
		t.Errorf("the first line is %s: %v", first, err)
	}
	await(t, "a full pipe", func() bool {
		n, err := unix.IoctlGetInt(int(from.Fd()), unix.TIOCINQ)
		return err != nil || n > room-4*len(want)
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 5 || !strings.Contains(stderr.String(), "context canceled") {
		t.Errorf("interrupted: %v, %s", cmd.ProcessState, stderr.String())
	}
}

type inferStream = grpc.BidiStreamingClient[inference.ModelInferRequest, inference.ModelStreamInferResponse]

// stream opens a stream.
func (b *box) stream(t *testing.T, ctx context.Context) inferStream {
	t.Helper()
	conn, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	st, err := inference.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func askCount(t *testing.T, st inferStream, n uint32) {
	t.Helper()
	wanted := &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}}
	err := st.Send(&inference.ModelInferRequest{
		ModelName: "count", Id: "7", Parameters: map[string]*inference.InferParameter{"triton_enable_empty_final_response": wanted},
		Inputs:           []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "INT32", Shape: []int64{1}}},
		RawInputContents: [][]byte{binary.LittleEndian.AppendUint32(nil, n)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func recvCount(t *testing.T, st inferStream) int {
	t.Helper()
	got, err := st.Recv()
	if err != nil || got.ErrorMessage != "" {
		t.Fatalf("%v, %v", got, err)
	}
	return int(binary.LittleEndian.Uint32(got.InferResponse.RawOutputContents[0]))
}

// events asks the step for numbers over REST and returns what reads the next event.
func (b *box) events(t *testing.T, ctx context.Context, n int) (next func() string) {
	t.Helper()
	return b.generate(t, ctx, "count", fmt.Sprintf(`{"x":%d}`, n))
}

// generate opens a stream of events and returns what reads the next one.
func (b *box) generate(t *testing.T, ctx context.Context, model, body string) (next func() string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", b.url+"/v2/models/"+model+"/generate_stream", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewReader(resp.Body)
	return func() string {
		for {
			line, err := lines.ReadString('\n')
			switch {
			case errors.Is(err, io.EOF):
				return "EOF"
			case err != nil:
				return err.Error()
			case line != "\n":
				return strings.TrimSuffix(line, "\n")
			}
		}
	}
}
