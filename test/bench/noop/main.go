// Command noop is a server that does nothing, on the libraries of the appliance: over HTTP its web framework, over gRPC
// its library. It answers every request with its own body, or with a tensor of as many bytes as it is told, and decodes
// nothing. What the appliance takes more than this is its own.
package main

import (
	"fmt"
	"math"
	"net"
	"os"
	"strconv"

	"github.com/gofiber/fiber/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// rawOutputContents is the number of that field of inference.ModelInferResponse.
const rawOutputContents = 6

func main() {
	fmt.Fprintln(os.Stderr, "noop:", serve(os.Args[1:]))
	os.Exit(1)
}

// serve says where it listens, first for HTTP and then for gRPC, until the process is killed. It returns only errors.
func serve(size []string) error {
	rest, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	body, message := (*fiber.Ctx).Body, mem.BufferSlice(nil)
	if len(size) > 0 {
		n, err := strconv.Atoi(size[0])
		if err != nil {
			return err
		}
		answer := make([]byte, n)
		body = func(*fiber.Ctx) []byte { return answer }
		tag := protowire.AppendTag(nil, rawOutputContents, protowire.BytesType)
		message = mem.BufferSlice{mem.SliceBuffer(protowire.AppendBytes(tag, answer))}
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true, BodyLimit: math.MaxInt32})
	app.Use(func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEOctetStream)
		c.Response().SetBodyRaw(body(c))
		return nil
	})
	server := grpc.NewServer(grpc.ForceServerCodecV2(frames{}), grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			var request mem.BufferSlice
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
			if message == nil {
				return stream.SendMsg(&request)
			}
			request.Free()
			return stream.SendMsg(&message)
		}))
	fmt.Printf("listening on %s %s\n", rest.Addr(), calls.Addr())
	ended := make(chan error, 2)
	go func() { ended <- app.Listener(rest) }()
	go func() { ended <- server.Serve(calls) }()
	return <-ended
}

// frames hands messages through as they are.
type frames struct{ encoding.CodecV2 }

// Name is that of the codec it stands for.
func (frames) Name() string { return "proto" }

// Marshal hands the frames of a message on.
func (frames) Marshal(v any) (mem.BufferSlice, error) { return *v.(*mem.BufferSlice), nil }

// Unmarshal keeps the frames of a message.
func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	data.Ref()
	*v.(*mem.BufferSlice) = data
	return nil
}
