// Command floor is the least that a server of a model can be: a thread for each connection, which reads a request in
// one piece where it can, runs the model on the bytes where they are and writes the output. It understands of HTTP and
// of the v2 protocol only where the tensor begins, checks nothing, batches nothing and holds one model. What it loses
// against a loop without sockets is what the operating system's network costs on this machine. Over gRPC it is the server
// that protoc generates, with the least behind it.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/gpu/onnx/ort"
)

const (
	maxRequest = 4 << 20
	alignment  = 64 // of the tensor
	lengthLine = "\nContent-Length: "
	jsonLine   = "\nInference-Header-Content-Length: "
)

// server is the model, and as many turns as there are cores.
type server struct {
	session *ort.Session
	in      edgewise.Tensor
	output  []string
	turns   chan struct{}
}

func main() {
	err := serve(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	fmt.Fprintln(os.Stderr, "floor:", err)
	os.Exit(1)
}

// serve serves the model at path, whose input is written as NAME:1,3,224,224, until the process is killed. It returns
// only errors.
func serve(path, input, datatype, output string) error {
	name, shape, err := perf.ParseShape(input)
	if err != nil {
		return err
	}
	kind, ok := edgewise.ParseDataType(datatype)
	if !ok {
		return fmt.Errorf("no such datatype: %s", datatype)
	}
	in := edgewise.Tensor{Name: name, Type: kind, Shape: shape}
	s := &server{in: in, output: []string{output}, turns: make(chan struct{}, runtime.NumCPU())}
	library, err := ort.Open([]string{"bin/lib/libonnxruntime.so.1"}, ort.Process{})
	if err != nil {
		return err
	}
	if s.session, err = library.NewSession(path, []string{name}, s.output, ort.Options{}); err != nil {
		return err
	}
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(listener, 128)); err != nil {
		return err
	}
	at, err := unix.Getsockname(listener)
	if err != nil {
		return err
	}
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	generated := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest + 1024))
	inference.RegisterGRPCInferenceServiceServer(generated, &service{server: s})
	go func() { _ = generated.Serve(calls) }()
	fmt.Printf("listening on 127.0.0.1:%d %s\n", at.(*unix.SockaddrInet4).Port, calls.Addr())
	for {
		client, _, err := unix.Accept(listener)
		if err != nil {
			return err
		}
		go func() {
			if err := s.answer(client); err != nil && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
				fmt.Fprintln(os.Stderr, "floor:", err)
			}
			_ = unix.Close(client)
		}()
	}
}

// answer answers the requests of one connection, which are all as long as the first one, until it is closed.
func (s *server) answer(client int) error {
	runtime.LockOSThread()
	memory := make([]byte, maxRequest+2*alignment)
	start := int(-uintptr(unsafe.Pointer(&memory[0])) & (alignment - 1))
	for first := true; ; first = false {
		request, tensor, err := read(client, memory[start:])
		if request == nil || err != nil {
			return err
		}
		if first { // from the next one on the tensor lies aligned
			start += -tensor & (alignment - 1)
		}
		if err := s.run(client, request[tensor:]); err != nil {
			return err
		}
	}
}

// read reads one request, and tells where in it the tensor begins. The request is nil when the client has left.
func read(client int, into []byte) (request []byte, tensor int, err error) {
	size, whole := 0, -1
	for whole < 0 || size < whole {
		n, err := unix.Read(client, into[size:])
		if n <= 0 || err != nil {
			return nil, 0, err
		}
		size += n
		if head := bytes.Index(into[:size], []byte("\r\n\r\n")); whole < 0 && head >= 0 {
			whole = head + 4 + number(into[:head+2], lengthLine)
			tensor = head + 4 + number(into[:head+2], jsonLine)
		}
	}
	return into[:whole], tensor, nil
}

func number(head []byte, line string) int {
	_, rest, _ := bytes.Cut(head, []byte(line))
	digits, _, _ := bytes.Cut(rest, []byte{'\r'})
	n, _ := strconv.Atoi(string(digits)) // 0 without the line
	return n
}

// infer runs the model on the bytes of its input.
func (s *server) infer(data []byte) (*edgewise.Result, error) {
	in := s.in
	in.Data = data
	s.turns <- struct{}{}
	defer func() { <-s.turns }()
	return s.session.Run(context.Background(), []edgewise.Tensor{in}, s.output, edgewise.RunOptions{})
}

func (s *server) run(client int, data []byte) error {
	result, err := s.infer(data)
	if err != nil {
		return err
	}
	defer result.Free()
	out := result.Outputs[0].Data
	answer := append(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(out)), out...)
	for len(answer) > 0 {
		n, err := unix.Write(client, answer)
		if err != nil {
			return err
		}
		answer = answer[n:]
	}
	return nil
}

// service is the server over gRPC.
type service struct {
	inference.UnimplementedGRPCInferenceServiceServer
	server *server
}

// ModelInfer runs the model on the one raw input of a request.
func (s *service) ModelInfer(_ context.Context, request *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	if len(request.RawInputContents) != 1 {
		return nil, status.Error(codes.InvalidArgument, "want one raw input")
	}
	result, err := s.server.infer(request.RawInputContents[0])
	if err != nil {
		return nil, err
	}
	defer result.Free()
	out := result.Outputs[0]
	return &inference.ModelInferResponse{
		ModelName: request.ModelName, ModelVersion: "1", RawOutputContents: [][]byte{bytes.Clone(out.Data)},
		Outputs: []*inference.ModelInferResponse_InferOutputTensor{
			{Name: s.server.output[0], Datatype: out.Type.String(), Shape: out.Shape},
		},
	}, nil
}
