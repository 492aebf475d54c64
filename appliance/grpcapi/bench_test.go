package grpcapi

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
)

// instant is a model that takes no time: its output is there already.
type instant struct {
	*fakeEngine
	output []byte
}

func (e *instant) Infer(_ context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	out := edgewise.Tensor{Name: "y", Type: edgewise.Uint8, Shape: edgewise.Shape{int64(len(e.output))}, Data: e.output}
	return &edgewise.Response{Model: edgewise.ModelID{Name: "echo", Version: 3}, Outputs: []edgewise.Tensor{out}}, nil
}

// frames hands messages through as they are.
type frames struct{ encoding.CodecV2 }

func (frames) Name() string { return "proto" }

func (frames) Marshal(v any) (mem.BufferSlice, error) { return *v.(*mem.BufferSlice), nil }

func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	data.Ref()
	*v.(*mem.BufferSlice) = data
	return nil
}

// echoServer answers every call with its request, by the library alone and untouched.
func echoServer(tb testing.TB) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(frames{}), grpc.MaxRecvMsgSize(LargestMessageBytes),
		grpc.MaxSendMsgSize(LargestMessageBytes),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			var message mem.BufferSlice
			if err := stream.RecvMsg(&message); err != nil {
				return err
			}
			return stream.SendMsg(&message)
		}))
	go func() { _ = server.Serve(ln) }()
	tb.Cleanup(server.Stop)
	return ln.Addr().String()
}

// blank sends a message that is marshalled already and throws the answer away, so that the server is what is measured.
type blank struct{}

func (blank) Name() string { return "proto" }

func (blank) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (blank) Unmarshal(mem.BufferSlice, any) error { return nil }

// BenchmarkInfer compares an inference with an echo of the same bytes.
func BenchmarkInfer(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"4B", 4}, {"16MB", 16 << 20}} {
		message, err := proto.Marshal(raw(size.bytes))
		if err != nil {
			b.Fatal(err)
		}
		ts := start(b, nil)
		ts.deps.Engine = &instant{ts.engine, make([]byte, size.bytes)}
		for name, address := range map[string]string{"box": ts.address, "echo": echoServer(b)} {
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.ForceCodecV2(blank{}), grpc.MaxCallRecvMsgSize(LargestMessageBytes)))
			if err != nil {
				b.Fatal(err)
			}
			b.Run(size.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(size.bytes))
				b.ReportAllocs()
				for b.Loop() {
					if err := conn.Invoke(b.Context(), inference.GRPCInferenceService_ModelInfer_FullMethodName, message,
						nil); err != nil {
						b.Fatal(err)
					}
				}
			})
			_ = conn.Close()
		}
	}
}
