package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

const (
	smallTensor  = 1       // element
	largeTensor  = 4 << 20 // elements: 16 MiB
	protocolTime = time.Second
	manyClients  = 4
	floorP50     = 1.5 // of the echo's, with one client
)

// floorRate is the part of the echo's rate that a box reaches with several clients. Two processes that sleep while they
// wait for each other (decision 0074) cost most beside a run that costs nothing.
func floorRate(isolation string, elements int64) float64 {
	if elements > smallTensor {
		return 0.77
	}
	return map[string]float64{"none": 0.75, "process": 0.55}[isolation]
}

// protocolFigures holds an inference that costs nothing against an echo of the same bytes by the same library: what the
// protocol, the queue and the way to the model and back take.
func protocolFigures(protocol string, elements int64) func(*run) {
	return func(r *run) {
		m, in := r.machine(), noise(edgewise.Shape{elements})
		modes := r.startModes(builtProgram, anywhere, identity(), identityConfig, in)
		echo := r.startProgram(anywhere, "noop")
		sides := func(clients int) (all []side) {
			of := func(name string, dial dialer) {
				all = append(all, side{name, func() (sample, error) { return closedLoop(dial, clients, protocolTime) }})
			}
			if protocol == "gRPC" {
				message := r.message("model", in)
				of("echo", grpcDialer(echo.grpc, message))
				for _, m := range modes {
					of("box, isolation "+m.name, grpcDialer(m.box.grpc, message))
				}
				return all
			}
			of("echo", modes[0].clients.at(echo.address, "/").dial)
			for _, m := range modes {
				of("box, isolation "+m.name, m.clients.dial)
			}
			return all
		}
		one, many := sides(1), sides(manyClients)
		alone, together := m.interleave(one), m.interleave(many)
		title := fmt.Sprintf("%s, %s", protocol, map[int64]string{smallTensor: "1 element", largeTensor: "16 MiB"}[elements])
		for i := 1; i < len(one); i++ {
			name := title + ", " + one[i].name
			r.report(
				atMost(name+", 1 client: p50 / echo's", alone[i].p50()/alone[0].p50(), floorP50, "x",
					fmt.Sprintf("%.0f us against %.0f us", 1e6*alone[i].p50(), 1e6*alone[0].p50())),
				atLeast(fmt.Sprintf("%s, %s: rate / echo's", name, count(manyClients)), together[i].over(together[0]),
					floorRate(modes[i-1].name, elements), "x", fmt.Sprintf("%.0f/s against %.0f/s", together[i].rate(), together[0].rate())))
		}
		r.latencies(title+", "+count(1), "us", one, alone)
		r.latencies(title+", "+count(manyClients), "us", many, together)
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

// message is a request over gRPC.
func (r *run) message(model string, in edgewise.Tensor) []byte {
	message, err := proto.Marshal(&inference.ModelInferRequest{
		ModelName: model, RawInputContents: [][]byte{in.Data},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: in.Name, Datatype: in.Type.String(), Shape: in.Shape}},
	})
	r.check(err)
	return message
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
