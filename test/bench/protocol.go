package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	smallTensor  = 1       // element
	largeTensor  = 4 << 20 // elements: 16 MiB
	protocolTime = time.Second
	manyClients  = 4
	floorP50     = 1.5  // of the echo's, with one client
	floorRate    = 0.77 // of the echo's, with several
)

// protocolFigures holds an inference that costs nothing against an echo of the same bytes by the same library: what the
// protocol, the queue and the way to the model and back take.
func protocolFigures(protocol string, elements int64) measurement {
	return func(dir string, rounds int) (r result, err error) {
		m, err := newMachine(dir)
		if err != nil {
			return r, err
		}
		in := noise(edgewise.Shape{elements})
		path := filepath.Join(dir, "identity.onnx")
		if err := os.WriteFile(path, identity().Bytes(), 0o644); err != nil {
			return r, err
		}
		modes, err := startModes(builtProgram, dir, anywhere, path, identityConfig, in)
		defer stopModes(modes)
		if err != nil {
			return r, err
		}
		echo, addresses, err := startProgram(dir, anywhere, "echo")
		if err != nil {
			return r, err
		}
		defer func() { _ = echo.stop() }()
		callers, err := echoCallers(protocol, addresses, modes, in)
		if err != nil {
			return r, err
		}
		title := fmt.Sprintf("%s, %s", protocol, map[int64]string{smallTensor: "1 element", largeTensor: "16 MiB"}[elements])
		return measureFloor(m, title, callers, rounds)
	}
}

// identityConfig keeps requests of any size out of batches.
const identityConfig = `input { name: "input" data_type: TYPE_FP32 dims: [-1] }
output { name: "output" data_type: TYPE_FP32 dims: [-1] }
`

// identity takes and makes one FP32 tensor of any size.
func identity() *onnxgen.Model {
	m := onnxgen.Identity(edgewise.FP32, onnxgen.Dim{Name: "n"})
	m.Graph.Inputs[0].Name, m.Graph.Outputs[0].Name = inputName, outputName
	m.Graph.Nodes[0].In, m.Graph.Nodes[0].Out = []string{inputName}, []string{outputName}
	return m
}

// dialer makes a connection that sends one request after the other.
type dialer func() (exchange func() error, hangUp func(), err error)

func echoCallers(protocol, addresses string, modes []mode, in edgewise.Tensor) ([]echoSide, error) {
	rest, calls, _ := strings.Cut(addresses, " ")
	sides := []echoSide{{name: "echo"}}
	for _, m := range modes {
		sides = append(sides, echoSide{name: "box, isolation " + m.name})
	}
	if protocol == "REST" {
		request := modes[0].clients.request()
		sides[0].dial = restDialer(rest, request)
		for i, m := range modes {
			sides[1+i].dial = restDialer(m.box.address, request)
		}
		return sides, nil
	}
	message, err := proto.Marshal(&inference.ModelInferRequest{
		ModelName: "model", Inputs: []*inference.ModelInferRequest_InferInputTensor{{
			Name:     in.Name,
			Datatype: in.Type.String(), Shape: in.Shape,
		}}, RawInputContents: [][]byte{in.Data},
	})
	if err != nil {
		return nil, err
	}
	sides[0].dial = grpcDialer(calls, message)
	for i, m := range modes {
		sides[1+i].dial = grpcDialer(m.box.grpc, message)
	}
	return sides, nil
}

type echoSide struct {
	name string
	dial dialer
}

func measureFloor(m *machine, title string, callers []echoSide, rounds int) (r result, err error) {
	var one, many []side
	for _, c := range callers {
		one = append(one, side{c.name, func() (sample, error) { return closedLoop(c.dial, 1, protocolTime) }})
		many = append(many, side{c.name, func() (sample, error) { return closedLoop(c.dial, manyClients, protocolTime) }})
	}
	alone, err := m.interleave(rounds, one)
	if err != nil {
		return r, err
	}
	together, err := m.interleave(rounds, many)
	if err != nil {
		return r, err
	}
	for i := 1; i < len(callers); i++ {
		name := title + ", " + callers[i].name
		r.Figures = append(r.Figures,
			atMost(name+", 1 client: p50 / echo's", alone[i].p50()/alone[0].p50(), floorP50, "x",
				fmt.Sprintf("%.0f us against %.0f us", 1e6*alone[i].p50(), 1e6*alone[0].p50())),
			atLeast(fmt.Sprintf("%s, %s: rate / echo's", name, count(manyClients)), together[i].over(together[0]), floorRate,
				"x", fmt.Sprintf("%.0f/s against %.0f/s", together[i].rate(), together[0].rate())))
	}
	r.Grids = []grid{
		latencies(title+", "+count(1), "us", 1e6, one, alone),
		latencies(title+", "+count(manyClients), "us", 1e6, many, together),
	}
	return r, nil
}

// closedLoop runs n clients for a while, each of which waits for its answer before it asks again.
func closedLoop(dial dialer, n int, during time.Duration) (sample, error) {
	begin := time.Now().Add(warmTime)
	return together(n, during, func(_ int, latencies *perf.Histogram) error {
		exchange, hangUp, err := dial()
		if err != nil {
			return err
		}
		defer hangUp()
		for now := time.Now(); now.Before(begin.Add(during)); {
			if err := exchange(); err != nil {
				return err
			}
			then := now
			now = time.Now()
			if then.After(begin) {
				latencies.Record(now.Sub(then))
			}
		}
		return nil
	})
}

func restDialer(address string, request []byte) dialer {
	return func() (func() error, func(), error) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return nil, nil, err
		}
		answer := bufio.NewReaderSize(conn, 64<<10)
		head := textproto.NewReader(answer)
		exchange := func() error {
			sent := make(chan error, 1)
			if len(request) > 64<<10 { // a server that answers while it reads must not wait for us
				go func() {
					_, err := conn.Write(request)
					sent <- err
				}()
			} else {
				_, err := conn.Write(request)
				sent <- err
			}
			line, err := head.ReadLine()
			if err != nil || !strings.Contains(line, " 200 ") {
				return fmt.Errorf("answered %q: %w", line, err)
			}
			fields, err := head.ReadMIMEHeader()
			if err != nil {
				return err
			}
			size, err := strconv.Atoi(fields.Get("Content-Length"))
			if err != nil {
				return err
			}
			if _, err = io.CopyN(io.Discard, answer, int64(size)); err != nil {
				return err
			}
			return <-sent
		}
		return exchange, func() { _ = conn.Close() }, nil
	}
}

// bare sends a message that is marshalled already and throws the answer away.
type bare struct{}

// Name is that of the codec it stands for.
func (bare) Name() string { return "proto" }

// Marshal hands a message on.
func (bare) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal drops a message.
func (bare) Unmarshal(mem.BufferSlice, any) error { return nil }

func grpcDialer(address string, message []byte) dialer {
	return func() (func() error, func(), error) {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bare{}), grpc.MaxCallRecvMsgSize(1<<30)))
		if err != nil {
			return nil, nil, err
		}
		exchange := func() error {
			return conn.Invoke(context.Background(), inference.GRPCInferenceService_ModelInfer_FullMethodName, message, nil)
		}
		return exchange, func() { _ = conn.Close() }, nil
	}
}
