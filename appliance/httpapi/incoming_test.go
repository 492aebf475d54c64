package httpapi_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// bodyMemory allocates memory for bodies and notes what becomes of it.
type bodyMemory struct {
	mu          sync.Mutex
	borrowed    map[*byte]int // bytes, by where they begin
	allocations int
}

func (p *bodyMemory) alloc(id edgewise.ModelID, n int) ([]byte, func()) {
	if id.Name != "echo" {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	data := make([]byte, n)
	p.borrowed[&data[0]] = n
	p.allocations++
	return data, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		clear(data) // who reads on sees it
		delete(p.borrowed, &data[0])
	}
}

// holds tells whether a tensor begins where a allocation does.
func (p *bodyMemory) holds(t edgewise.Tensor) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(t.Data) > 0 && p.borrowed[&t.Data[0]] > 0
}

func (p *bodyMemory) counts() (allocations, open int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.allocations, len(p.borrowed)
}

// borrowedFrom is from how many bytes on tensors arrive in memory of the model.
const borrowedFrom = 64 << 10

// patronized is a server whose model allocates memory, and which notes whether the first input of a request stood in it.
func patronized(t *testing.T, change func(*httpapi.Config)) (ts *testServer, p *bodyMemory, there *atomic.Bool) {
	ts, p, there = startServer(t, change), &bodyMemory{borrowed: map[*byte]int{}}, &atomic.Bool{}
	ts.engine.alloc = p.alloc
	ts.engine.hook = func(_ context.Context, req *edgewise.Request) { there.Store(p.holds(req.Inputs[0])) }
	return ts, p, there
}

func TestLargeTensorsArriveInMemoryOfTheModel(t *testing.T) {
	const least = borrowedFrom / 4
	for _, test := range []struct {
		floats   int
		borrowed bool
	}{{least - 1, false}, {least, true}, {150_528, true}} {
		t.Run(fmt.Sprint(test.floats), func(t *testing.T) {
			ts, p, there := patronized(t, nil)
			body, head := binaryInfer(test.floats)
			c := dial(t, ts)
			c.send(inferRequest(body, head))
			want := c.raw()
			for range 3 {
				c.send(inferRequest(body, head))
				if got := c.raw(); got != want || there.Load() != test.borrowed {
					t.Fatalf("borrowed %v, want %v; the same answer: %v", there.Load(), test.borrowed, got == want)
				}
			}
			waitFor(t, func() bool { _, open := p.counts(); return open == 0 }) // an answer arrives before its allocation ends
			if allocations, _ := p.counts(); (allocations > 0) != test.borrowed {
				t.Errorf("%d allocations", allocations)
			}
		})
	}
}

func TestAJSONPartThatIsCutAnywhereArrives(t *testing.T) {
	ts, _, there := patronized(t, nil)
	body, head := binaryInfer(20_000)
	whole := inferRequest(body, head)
	start := len(whole) - len(body)
	c := dial(t, ts)
	c.send(whole)
	want := c.raw()
	for _, cut := range []int{
		start, start + 1, start + head - 1, start + head, start + head + 1, start + 30_000,
		len(whole) - 1,
	} {
		c.send(whole[:cut])
		time.Sleep(2 * time.Millisecond) // so that it is read alone; nothing depends on it
		c.send(whole[cut:])
		if got := c.raw(); got != want || !there.Load() {
			t.Errorf("cut at %d: borrowed %v, the same answer %v", cut, there.Load(), got == want)
		}
	}
}

func TestTensorsWithFramesAreNotReadWhereOthersWrite(t *testing.T) {
	ts, p, there := patronized(t, nil)
	text := strings.Repeat("x", borrowedFrom)
	element := edgewise.AppendElement(nil, text)
	head := fmt.Sprintf(
		`{"inputs":[{"name":"x","datatype":"BYTES","shape":[1,1],"parameters":{"binary_data_size":%d}}],`+
			`"parameters":{"binary_data_output":true}}`, len(element))
	numbers := fmt.Sprintf(
		`{"inputs":[{"name":"x","datatype":"INT8", "shape":[1,%d],"parameters":{"binary_data_size":%d}}],`+
			`"parameters":{"binary_data_output":true}}`, len(element), len(element))
	numbers += strings.Repeat(" ", max(0, len(head)-len(numbers)))
	head += strings.Repeat(" ", max(0, len(numbers)-len(head)))
	c := dial(t, ts)
	c.send(inferRequest(head+string(element), len(head)))
	want := c.raw()
	if !strings.HasSuffix(want, string(element)) || there.Load() {
		t.Errorf("strings: borrowed %v, answer %.300q", there.Load(), want)
	}
	c.send(inferRequest(numbers+string(element), len(numbers)))
	if c.raw(); !there.Load() {
		t.Error("numbers are not borrowed for")
	}
	c.send(inferRequest(head+string(element), len(head)))
	if got := c.raw(); got != want || there.Load() {
		t.Errorf("after numbers: borrowed %v, the same answer: %v", there.Load(), got == want)
	}
	waitFor(t, func() bool { _, open := p.counts(); return open == 0 })
}

func TestALoanEndsWithItsRequest(t *testing.T) {
	body, head := binaryInfer(20_000)
	whole := inferRequest(body, head)
	bad := inferRequest(strings.Replace(body, "FP32", "FP99", 1), head)
	for _, test := range []struct {
		name   string
		second string
		leave  bool
		status int
	}{
		{"a request that cannot be read", bad, false, 400},
		{"a body that stops", whole[:len(whole)/2], false, 408},
		{"a client that leaves", whole[:len(whole)/2], true, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			ts, p, _ := patronized(t, func(c *httpapi.Config) { c.BodyTimeout = 200 * time.Millisecond })
			c := dial(t, ts)
			c.send(test.second)
			if test.leave {
				_ = c.conn.(*net.TCPConn).CloseWrite()
			}
			if status, answer := c.answer("POST"); status != test.status {
				t.Errorf("answer %d %s", status, answer)
			}
			waitFor(t, func() bool { _, open := p.counts(); return open == 0 })
			if allocations, _ := p.counts(); allocations != 1 {
				t.Errorf("%d allocations", allocations)
			}
		})
	}
}

func TestLoansCountAsBodies(t *testing.T) {
	ts, _, there := patronized(t, func(c *httpapi.Config) { c.MaxInflightBytes = 2 << 20 })
	body, head := binaryInfer(200_000) // of which two and an answer are too much
	whole := inferRequest(body, head)
	slow, quick := dial(t, ts), dial(t, ts)
	for _, c := range []*probe{slow, quick} {
		c.send(whole)
		c.raw()
	}
	waitFor(t, func() bool { return ts.Memory().InUse() == 0 }) // an answer arrives before its memory is given back
	slow.send(whole[:len(whole)/2])
	waitFor(t, func() bool { return ts.Memory().InUse() >= int64(len(body)) }) // the allocation is counted after it was made
	held := ts.Memory().InUse()
	quick.send(whole)
	if status, answer := quick.answer("POST"); status != 503 || !strings.Contains(answer, "http.max_inflight_bytes") {
		t.Errorf("answer %d %s, want 503", status, answer)
	}
	waitFor(t, func() bool { return ts.Memory().InUse() == held })
	slow.send(whole[len(whole)/2:])
	if status, _ := slow.answer("POST"); status != 200 || !there.Load() {
		t.Errorf("answer %d, borrowed %v", status, there.Load())
	}
}
