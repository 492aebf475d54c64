package grpcapi

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/edgewise-ai/edgewise/api/inference"
)

// rawClient writes the frames of calls by itself, and reads nothing of the answers.
type rawClient struct {
	net.Conn
	t      *testing.T
	opened uint32
	ended  chan struct{} // closed with the connection
}

func (ts *testServer) raw(t *testing.T) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", ts.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &rawClient{Conn: conn, t: t, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		_, _ = io.Copy(io.Discard, conn)
	}()
	c.send([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	c.frame(4, 0, 0, nil) // SETTINGS
	return c
}

func (c *rawClient) send(p []byte) {
	c.t.Helper()
	if _, err := c.Write(p); err != nil {
		c.t.Fatal(err)
	}
}

func (c *rawClient) frame(kind, flags byte, stream uint32, payload []byte) {
	c.t.Helper()
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	c.send(append(binary.BigEndian.AppendUint32(head, stream), payload...))
}

// begin begins a call with the first bytes of a message of so many.
func (c *rawClient) begin(method string, message uint32, bytes int) {
	c.t.Helper()
	var headers []byte
	for _, h := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", method},
		{":authority", "test"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		headers = append(headers, 0, byte(len(h[0])))
		headers = append(headers, h[0]...)
		headers = append(headers, byte(len(h[1])))
		headers = append(headers, h[1]...)
	}
	c.opened += 2
	stream := c.opened - 1
	c.frame(frameHeaders, 4, stream, headers)
	data := append(binary.BigEndian.AppendUint32([]byte{0}, message), make([]byte, bytes)...)
	for len(data) > 0 {
		n := min(len(data), 16<<10)
		c.frame(frameData, 0, stream, data[:n])
		data = data[n:]
	}
}

// TestMessagesThatStopHalfwayAreBounded has many calls send a part of a message, and then nothing more: as many as there is
// memory for stay, and the others are refused.
func TestMessagesThatStopHalfwayAreBounded(t *testing.T) {
	const (
		bound = 8 << 20
		calls = 32
		part  = 1 << 20
		fit   = bound / (part + prefixBytes)
	)
	for _, method := range []string{
		inference.GRPCInferenceService_ModelInfer_FullMethodName,
		inference.GRPCInferenceService_ModelStreamInfer_FullMethodName,
		inference.GRPCInferenceService_RepositoryModelLoad_FullMethodName,
		inference.GRPCInferenceService_ServerLive_FullMethodName,
	} {
		t.Run(method, func(t *testing.T) {
			ts := start(t, func(c *Config) { c.MaxMessageBytes, c.MaxInflightBytes = 4<<20, bound })
			c := ts.raw(t)
			for range calls {
				c.begin(method, 4<<20, part)
			}
			eventually(t, "the refusal of what does not fit", func() bool {
				refused := uint64(0)
				for _, n := range ts.Statistics().Calls {
					if n.Code == codes.Unavailable.String() {
						refused += n.Count
					}
				}
				return refused == calls-fit
			})
			if n := ts.Statistics().InflightBytes; n > bound || n < fit*part {
				t.Errorf("%d bytes are counted", n)
			}
			_ = c.Close()
			eventually(t, "the end of what the calls had sent", func() bool { return ts.Statistics().InflightBytes == 0 })
			if _, err := ts.client.ModelInfer(t.Context(), numbered(0, 100_000)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestACallOfTheLibraryThatIsRefusedEndsItsConnection sends too much of a message that the library handles by itself.
func TestACallOfTheLibraryThatIsRefusedEndsItsConnection(t *testing.T) {
	ts := start(t, func(c *Config) { c.MaxMessageBytes, c.MaxInflightBytes = 1<<20, 1<<20 })
	c := ts.raw(t)
	c.begin("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", 1<<20, 1<<20-1)
	<-c.ended
	eventually(t, "the end of what was sent", func() bool { return ts.Statistics().InflightBytes == 0 })
}

// TestTinyFramesCountWhatTheyTake sends a message byte by byte.
func TestTinyFramesCountWhatTheyTake(t *testing.T) {
	ts := start(t, nil)
	c := ts.raw(t)
	c.begin(inference.GRPCInferenceService_ModelInfer_FullMethodName, 1<<20, 0)
	const frames = 1000
	for range frames {
		c.frame(frameData, 0, 1, []byte{0})
	}
	eventually(t, "the frames", func() bool { return ts.Statistics().InflightBytes == (frames+1)*minFrameCost })
	_ = c.Close()
	eventually(t, "the end of what was sent", func() bool { return ts.Statistics().InflightBytes == 0 })
}

// TestALongStreamLeavesNothingCounted has a stream send messages of many sizes, and stay open.
func TestALongStreamLeavesNothingCounted(t *testing.T) {
	for name, options := range map[string][]grpc.CallOption{"plain": nil, "compressed": {grpc.UseCompressor("gzip")}} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, nil)
			st, err := ts.client.ModelStreamInfer(t.Context(), options...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 200 {
				if err := st.Send(numbered(i, 1+i*i)); err != nil {
					t.Fatal(err)
				}
			}
			for range 200 {
				if _, err := st.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "the end of what was sent", func() bool { return ts.Statistics().InflightBytes == 0 })
			if err := st.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := st.Recv(); err != io.EOF {
				t.Error(err)
			}
		})
	}
}
