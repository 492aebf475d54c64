package grpcapi

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference/wire"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
)

// modelMemory is memory of echo to borrow, full of what other requests have left.
type modelMemory struct {
	mu       sync.Mutex // guards what follows
	borrowed [][]byte
	total    int
}

func (m *modelMemory) alloc(id edgewise.ModelID, n int) ([]byte, func()) {
	if id.Name != "echo" {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data := bytes.Repeat([]byte{0xaa}, n+blocks.Alignment)
	data = data[-int(uintptr(unsafe.Pointer(&data[0])))&(blocks.Alignment-1):][:n:n]
	m.borrowed = append(m.borrowed, data)
	m.total++
	return data, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.borrowed = slices.DeleteFunc(m.borrowed, func(b []byte) bool { return &b[0] == &data[0] })
		copy(data, bytes.Repeat([]byte{0xbb}, n)) // whoever reads on sees it
	}
}

// has tells whether a tensor is in borrowed memory.
func (m *modelMemory) has(t edgewise.Tensor) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))
	return slices.ContainsFunc(m.borrowed, func(b []byte) bool {
		begin := uintptr(unsafe.Pointer(&b[0]))
		return at >= begin && at+uintptr(len(t.Data)) <= begin+uintptr(len(b))
	})
}

func (m *modelMemory) counts() (total, open int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total, len(m.borrowed)
}

// borrowing is a server whose model has memory to borrow, and which notes whether the first input of a request was there.
func borrowing(t *testing.T, change func(*Config)) (ts *testServer, m *modelMemory, there *atomic.Bool) {
	ts, m, there = start(t, change), &modelMemory{}, &atomic.Bool{}
	ts.deps.AllocBody = m.alloc
	ts.engine.onInfer(func(_ context.Context, req *edgewise.Request) error {
		if len(req.Inputs) > 0 {
			there.Store(m.has(req.Inputs[0]))
		}
		return nil
	})
	t.Cleanup(func() {
		eventually(t, "the return of borrowed memory", func() bool { _, open := m.counts(); return open == 0 })
	})
	return ts, m, there
}

func TestLargeTensorsArriveInMemoryOfTheModel(t *testing.T) {
	typed := tensor("FP32", []int64{20_000}, &contents{Fp32Contents: make([]float32, 20_000)})
	elements := raw(0)
	elements.Inputs[0] = &input{Name: "x", Datatype: "BYTES", Shape: []int64{1}}
	elements.RawInputContents[0] = edgewise.AppendElement(nil, strings.Repeat("x", frontend.MinBorrowed))
	label := raw(100_000)
	label.ModelVersion = "beta"
	for _, test := range []struct {
		name     string
		req      *request
		option   grpc.CallOption
		borrowed bool
	}{
		{"too small", raw(frontend.MinBorrowed - 1), nil, false},
		{"large enough", raw(frontend.MinBorrowed), nil, true},
		{"a picture", raw(602_112), nil, true},
		{"larger than the windows", raw(5_000_000), nil, true},
		{"by a label", label, nil, true},
		{"compressed", raw(602_112), grpc.UseCompressor("gzip"), false},
		{"in typed contents", typed, nil, false},
		{"strings", elements, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts, m, there := borrowing(t, nil)
			ts.beta.set(3)
			var options []grpc.CallOption
			if test.option != nil {
				options = append(options, test.option)
			}
			for range 3 {
				got, err := ts.client.ModelInfer(t.Context(), test.req, options...)
				if err != nil {
					t.Fatal(err)
				}
				if len(test.req.RawInputContents) > 0 && !bytes.Equal(got.RawOutputContents[0], test.req.RawInputContents[0]) {
					t.Error("the bytes came back changed")
				}
				if there.Load() != test.borrowed {
					t.Fatalf("borrowed %v", there.Load())
				}
			}
			if total, _ := m.counts(); test.borrowed && total != 3 {
				t.Errorf("borrowed %d times", total)
			}
		})
	}
}

func TestMessagesOfAStreamArriveInMemoryOfTheModel(t *testing.T) {
	ts, m, _ := borrowing(t, nil)
	st := ts.openStream(t, t.Context())
	const n = 20
	go func() {
		for i := range n {
			if st.Send(numbered(i, 100_000+i)) != nil {
				return
			}
		}
		_ = st.CloseSend()
	}()
	for i := range n {
		got, err := st.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if want := raw(100_000 + i).RawInputContents[0]; !bytes.Equal(got.InferResponse.RawOutputContents[0], want) {
			t.Errorf("message %d came back changed", i)
		}
	}
	if total, _ := m.counts(); total != n {
		t.Errorf("borrowed %d times", total)
	}
}

func TestBorrowedMemoryComesBackHoweverTheRequestEnds(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *request)
		infer  func(ctx context.Context, leave func()) error
		code   codes.Code
	}{
		"a datatype that does not exist": {change: func(r *request) { r.Inputs[0].Datatype = "X" }, code: codes.InvalidArgument},
		"a tensor too much": {
			change: func(r *request) { r.RawInputContents = append(r.RawInputContents, []byte{1}) }, code: codes.InvalidArgument,
		},
		"the model fails": {infer: func(context.Context, func()) error {
			return edgewise.Errorf("fake", edgewise.Internal, "broken")
		}, code: codes.Internal},
		"the handler panics": {infer: func(context.Context, func()) error { panic("test") }, code: codes.Internal},
		"the client leaves": {infer: func(ctx context.Context, leave func()) error {
			leave()
			<-ctx.Done()
			return ctx.Err()
		}, code: codes.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ts, m, _ := borrowing(t, nil)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if test.infer != nil {
				ts.engine.onInfer(func(ctx context.Context, _ *edgewise.Request) error { return test.infer(ctx, leave) })
			}
			req := raw(100_000)
			if test.change != nil {
				test.change(req)
			}
			_, err := ts.client.ModelInfer(ctx, req)
			wantStatus(t, err, test.code, "")
			if total, _ := m.counts(); total != 1 {
				t.Errorf("borrowed %d times", total)
			}
		})
	}
}

func TestBorrowedMemoryCountsAsMessages(t *testing.T) {
	ts, m, _ := borrowing(t, func(c *Config) { c.MaxInflightBytes, c.MaxMessageBytes = 1<<20, 1<<20 })
	held, release := make(chan struct{}), make(chan struct{})
	ts.engine.onInfer(func(_ context.Context, req *edgewise.Request) error {
		if !m.has(req.Inputs[0]) {
			t.Error("not borrowed")
		}
		close(held)
		<-release
		return nil
	})
	first := ts.sent(t, t.Context(), raw(602_112), grpc.StreamDesc{})
	<-held
	_, err := ts.client.ModelInfer(t.Context(), raw(602_112))
	wantStatus(t, err, codes.Unavailable, "grpc.max_inflight_bytes")
	close(release)
	if err := answered(first); err != nil {
		t.Error(err)
	}
}

// A key that is bound to other models borrows nothing of this one.
func TestACallerThatMayNotNameAModelBorrowsNothingOfIt(t *testing.T) {
	ts, m, _ := borrowing(t, nil)
	message, err := proto.Marshal(raw(100_000))
	if err != nil {
		t.Fatal(err)
	}
	for want, name := range []string{"dog", "echo"} {
		ctx := edgewise.WithPrincipal(t.Context(), &edgewise.Principal{Rights: edgewise.Infer, Models: []string{name}})
		in := ts.receive(ctx)
		if err := newCodec(ts.memory, new(outgoing), 1<<20, ts.panicked).Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, in); err != nil {
			t.Fatal(err)
		}
		if total, _ := m.counts(); total != want {
			t.Errorf("bound to %q: borrowed %d times", name, total)
		}
		in.release()
	}
}

// FuzzTensorsApart holds a message that comes in frames, whose tensors may be separated, against the same message in one
// piece: both give the same request, or the same error. A large tensor is between what is given, which no fuzzer could
// make by itself.
func FuzzTensorsApart(f *testing.F) {
	header, err := proto.Marshal(&request{ModelName: "echo", Id: "a", Inputs: []*input{
		{Name: "x", Datatype: "UINT8", Shape: []int64{frontend.MinBorrowed}}, {Name: "b", Datatype: "BYTES", Shape: []int64{0}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	for _, end := range []string{
		"", "\x3a\x00", "\x3a\x03abc", "\x3a\x81\x00z", "\x3a\x05abc", "\x0a\x03dog", strings.Repeat("\x3a\x01a", maxApart+1),
	} {
		f.Add(header, []byte(end), uint16(16383), uint16(9))
		f.Add(header, []byte(end), uint16(1000), uint16(0))
		f.Add(append([]byte("\x3a\x01a"), header...), []byte(end), uint16(500), uint16(len(header)+2))
	}
	large := protowire.AppendBytes([]byte("\x3a"), make([]byte, frontend.MinBorrowed))
	f.Fuzz(func(t *testing.T, header, end []byte, size, first uint16) {
		message := slices.Concat(header, large, end)
		var frames mem.BufferSlice
		rest := message
		for at := int(first); len(rest) > 0; at = max(int(size), 100) {
			n := min(at, len(rest))
			frames = append(frames, mem.SliceBuffer(rest[:n]))
			rest = rest[n:]
		}
		memory, m := blocks.New(1<<30), &modelMemory{}
		deps := frontend.Deps{AllocBody: m.alloc}
		in := &received{borrow: func(beginning []byte, b *blocks.Block, n int64) frontend.Borrowed {
			id, _, err := wire.ModelOf(beginning)
			if err != nil {
				return frontend.Borrowed{}
			}
			return deps.Borrow(b, id, n)
		}}
		if err := newCodec(memory, new(outgoing), 1<<30, nil).Unmarshal(frames, in); err != nil || in.err != nil {
			return // a mark of compressed data
		}
		got, err := wire.Parse(in.bytes, in.tensors, kserve.Limits{})
		want, wantErr := wire.Parse(message, nil, kserve.Limits{})
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("in frames %v, in one piece %v", err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("in frames %.500v, in one piece %.500v", got, want)
		}
		in.release()
		if _, open := m.counts(); open > 0 || memory.InUse() > 0 {
			t.Fatalf("%d pieces and %d bytes are still in use", open, memory.InUse())
		}
	})
}
