package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/edgewise-ai/edgewise/api/inference"
)

// What the producer of models/producer.py does.
const (
	tellEnd     = 0
	sendNumbers = 1
	waitQuietly = 2
	sendBlindly = 3
)

// Tries: a round, and of a producer that does not look. That is ended after the grace of its backend, and a model whose
// processes die too often is not started again.
const cancelTries, blindTries = 10, 2

const producerConfig = `backend: "python"
input { name: "input" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "output" data_type: TYPE_INT64 dims: [ 1 ] }
model_transaction_policy { decoupled: true }
`

// producing reads the first response of a producer.
type producing func(b *box, ctx context.Context, do int32) (int64, error)

// cancelFigures measure how soon the end of a stream by its client is known: to the box, and to the producer.
func cancelFigures(r *run) {
	for _, way := range []struct {
		name string
		read producing
	}{{"gRPC, the call is cancelled", (*box).streamed}, {"REST, the connection is closed", (*box).events}} {
		for _, do := range []struct {
			what  int32
			name  string
			tries int
		}{
			{sendNumbers, "sends, and looks each time", cancelTries * r.rounds},
			{waitQuietly, "sends nothing, and looks each ms", cancelTries * r.rounds},
			{sendBlindly, "sends, and never looks", blindTries},
		} {
			b := r.startBuild(builtProgram, anywhere, nil, fmt.Sprintf("%s/data%d", r.dir, len(r.ends)))
			r.pushPython(b, "producer", producerConfig, "producer.py")
			r.cancelling(b, fmt.Sprintf("%s: a producer that %s", way.name, do.name), do.what, do.tries, way.read)
			r.check(b.stop())
		}
	}
}

// cancelling leaves streams and reports how long that took.
func (r *run) cancelling(b *box, name string, do int32, tries int, read producing) {
	var box, producer []float64
	for n := range tries {
		ctx, leave := context.WithCancel(context.Background())
		_, err := read(b, ctx, do)
		r.check(err)
		left := monotonic()
		leave()
		r.check(b.untilFailed("producer", uint64(n+1)))
		box = append(box, 1e-6*float64(monotonic()-left))
		if do == sendBlindly { // its process is ended, and another one started
			for end := time.Now().Add(3 * stallTime); err == nil && time.Now().Before(end); time.Sleep(stallTime / 100) {
				if _, away := read(b, context.Background(), tellEnd); away == nil {
					break
				}
			}
			continue
		}
		ended, err := read(b, context.Background(), tellEnd)
		r.check(err)
		producer = append(producer, 1e-6*float64(ended-left))
	}
	report := func(who string, took []float64) {
		r.report(atMost(name+", until "+who, slices.Max(took), 100, "ms",
			fmt.Sprintf("the slowest of %d; median %.1f ms", len(took), median(took))))
	}
	report("the box has ended the request", box)
	if len(producer) > 0 {
		report("the producer has seen it", producer)
	}
}

// monotonic is the system's clock in nanoseconds.
func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // every system has it
	return now.Nano()
}

// untilFailed waits until so many requests to a model have failed.
func (b *box) untilFailed(model string, failed uint64) error {
	for end := time.Now().Add(stallTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s, err := b.counts(model)
		if err != nil || s.InferenceStats.Fail.Count >= failed {
			return err
		}
	}
	return errors.New("the box has not noticed that the client is gone")
}

// streamed opens a stream over gRPC and returns the first response. The stream goes on until ctx ends.
func (b *box) streamed(ctx context.Context, do int32) (int64, error) {
	conn, err := grpc.NewClient(b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, err
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	stream, err := inference.NewGRPCInferenceServiceClient(conn).ModelStreamInfer(ctx)
	if err != nil {
		return 0, err
	}
	err = stream.Send(&inference.ModelInferRequest{
		ModelName: "producer", RawInputContents: [][]byte{binary.LittleEndian.AppendUint32(nil, uint32(do))},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "input", Datatype: "INT32", Shape: []int64{1}}},
	})
	if err != nil {
		return 0, err
	}
	got, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	if got.ErrorMessage != "" {
		return 0, errors.New(got.ErrorMessage)
	}
	return int64(binary.LittleEndian.Uint64(got.InferResponse.RawOutputContents[0])), nil
}

// post sends JSON to a route of a model.
func (b *box) post(ctx context.Context, route, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.address+"/v2/models/"+route, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

// events is streamed over REST.
func (b *box) events(ctx context.Context, do int32) (int64, error) {
	resp, err := b.post(ctx, "producer/generate_stream", fmt.Sprintf(`{"input":%d}`, do))
	if err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	_, number, ok := strings.Cut(line, `"output":`)
	if !ok {
		return 0, fmt.Errorf("the event is %q", line)
	}
	return strconv.ParseInt(strings.TrimRight(number, "}\n"), 10, 64)
}
