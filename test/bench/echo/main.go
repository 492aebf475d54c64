// Command echo answers every request with its own body: over HTTP with the web framework of the appliance, over gRPC
// with its library. It decodes nothing. What the appliance takes more than this is its own.
package main

import (
	"fmt"
	"math"
	"net"
	"os"

	"github.com/gofiber/fiber/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

// serve says where it listens, first for HTTP and then for gRPC, until the process is killed.
func serve() error {
	rest, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true, BodyLimit: math.MaxInt32})
	app.Use(func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEOctetStream)
		c.Response().SetBodyRaw(c.Body())
		return nil
	})
	server := grpc.NewServer(grpc.ForceServerCodecV2(frames{}), grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			var message mem.BufferSlice
			if err := stream.RecvMsg(&message); err != nil {
				return err
			}
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
