package backend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// peer is a connection whose backend is the test.
type peer struct {
	t      *testing.T
	client *Client
	theirs *socket
	over   chan struct{} // Serve has returned
	ended  error         // what; read after over
	logs   atomic.Int32
}

func (p *peer) Exec(*Exec, []edgewise.Tensor, func()) {}
func (p *peer) Drop(uint64)                           {}
func (p *peer) Log(Level, string)                     { p.logs.Add(1) }
func (p *peer) Metric(*Metric)                        {}
func (p *peer) Control(uint64, *Control)              {}
func (p *peer) Pong(uint64)                           {}

// connected makes a connection of which nobody reads yet.
func connected(t *testing.T) *peer {
	t.Helper()
	p := &peer{t: t, over: make(chan struct{})}
	client, files, err := Connect(1<<20, 1<<20, p)
	if err != nil {
		t.Fatal(err)
	}
	p.client, p.theirs = client, newSocket(files[0], 0)
	t.Cleanup(func() {
		for _, f := range files {
			_ = f.Close()
		}
	})
	return p
}

// serve lets Serve read.
func (p *peer) serve() {
	go func() {
		p.ended = p.client.Serve()
		p.client.End(p.ended)
		close(p.over)
	}()
	p.t.Cleanup(func() {
		p.client.Close()
		<-p.over
	})
}

// send sends a batch of one call, and returns the number of its run, the call, and where its responses go.
func (p *peer) send(inputs ...edgewise.Tensor) (run uint64, call *Call, answers chan *Response) {
	p.t.Helper()
	answers = make(chan *Response, 4)
	call = &Call{Tensors: inputs, Answer: func(r *Response) { answers <- r }}
	if err := p.client.Send(p.t.Context(), []*Call{call}); err != nil {
		p.t.Fatal(err)
	}
	for {
		k, body, err := p.theirs.next()
		if err != nil {
			p.t.Fatal(err)
		}
		if k != KindRun {
			continue
		}
		r, err := decodeRun(body)
		if err != nil || len(r.Calls) != 1 {
			p.t.Fatal(r, err)
		}
		return r.Run, call, answers
	}
}

// answer is an empty final response to a call, and DONE.
func answer(run uint64, call *Call) []byte {
	frames, _ := appendResponse(nil, &response{call.number, Answer{Final: true}})
	return appendNumbers(frames, KindDone, run)
}

func (p *peer) write(frames []byte) {
	p.t.Helper()
	if err := p.theirs.write(frames); err != nil {
		p.t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

func TestAwaitReadsTheAnswerItself(t *testing.T) {
	p := connected(t) // Serve does not run
	run, call, answers := p.send()
	line, _ := appendLog(nil, Info, "behind it")
	p.write(append(answer(run, call), line...))
	if !p.client.Await(t.Context()) || len(answers) != 1 {
		t.Errorf("%d answers", len(answers))
	}
	if p.logs.Load() != 1 {
		t.Error("a frame that came with DONE was left, and the kernel will tell nobody of it")
	}
	p.client.End(io.EOF)
}

func TestServeReadsWhileNobodyAwaits(t *testing.T) {
	p := connected(t)
	p.serve()
	line, _ := appendLog(nil, Info, "in between")
	for n := range int32(20) {
		p.write(line)
		eventually(t, "line", func() bool { return p.logs.Load() == n*2+1 })
		run, call, answers := p.send()
		p.write(append(line, answer(run, call)...))
		if !p.client.Await(t.Context()) || len(answers) != 1 || p.logs.Load() != n*2+2 {
			t.Fatalf("turn %d: %d answers, %d lines", n, len(answers), p.logs.Load())
		}
	}
	_ = p.theirs.close()
	<-p.over
	if !Gone(p.ended) {
		t.Errorf("it ended with %v", p.ended)
	}
}

func TestServeReadsWhenARunLasts(t *testing.T) {
	p := connected(t)
	p.serve()
	run, call, answers := p.send()
	done := make(chan bool, 1)
	go func() { done <- p.client.Await(context.Background()) }()
	turn := p.client.turn
	eventually(t, "end of the turn of Await", func() bool {
		turn.mu.Lock()
		defer turn.mu.Unlock()
		return !turn.taken && len(done) == 0
	})
	frames := answer(run, call)
	for _, part := range [][]byte{frames[:3], frames[3:20], frames[20:]} { // a turn may end within a frame
		p.write(part)
		eventually(t, "reader of a part", func() bool {
			unread, err := unix.IoctlGetInt(int(p.theirs.file.Fd()), unix.SIOCOUTQ)
			return err == nil && unread == 0
		})
	}
	if !<-done || len(answers) != 1 {
		t.Errorf("%d answers", len(answers))
	}
}

func TestAwaitSeesTheEndOfItsContext(t *testing.T) {
	p := connected(t)
	p.serve()
	run, call, answers := p.send()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool, 1)
	go func() { done <- p.client.Await(ctx) }()
	cancel()
	if <-done || len(answers) != 0 {
		t.Error("it has waited for an answer that nobody sent")
	}
	p.write(answer(run, call))
	if !p.client.Await(t.Context()) || len(answers) != 1 {
		t.Errorf("%d answers", len(answers))
	}
}

func TestWhatAwaitReadsEndsTheConnectionInServe(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(p *peer)
		want error
	}{
		"nonsense":       {func(p *peer) { p.write([]byte{1, 0, 0, 0, 200}) }, ErrProtocol},
		"a long frame":   {func(p *peer) { p.write([]byte{255, 255, 255, 255}) }, ErrProtocol},
		"the end":        {func(p *peer) { _ = p.theirs.close() }, io.EOF},
		"half a frame":   {func(p *peer) { p.write([]byte{9, 0, 0}); _ = p.theirs.close() }, io.ErrUnexpectedEOF},
		"Client.Close":   {func(p *peer) { p.client.Close() }, os.ErrClosed},
		"Close, answers": {func(p *peer) { p.client.Close(); _ = p.theirs.write([]byte{1, 0, 0, 0, 200}) }, os.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			p := connected(t)
			p.serve()
			_, _, answers := p.send()
			done := make(chan bool, 1)
			go func() { done <- p.client.Await(context.Background()) }()
			test.end(p)
			if <-done {
				t.Error("Await says that the next batch may come")
			}
			<-p.over
			if got := <-answers; !errors.Is(p.ended, test.want) || !got.Final || !errors.Is(got.Error, test.want) {
				t.Errorf("Serve: %v, answer: %+v, want %v", p.ended, got, test.want)
			}
		})
	}
}

func TestABackendThatDoesNotReadLosesItsConnection(t *testing.T) {
	p := connected(t)
	at := unix.NsecToTimeval((20 * time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(p.client.turn.socket, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &at); err != nil {
		t.Fatal(err)
	}
	p.serve()
	var err error
	for err == nil {
		err = p.client.Answer(1, &ControlAnswer{Error: &Error{Message: strings.Repeat("x", 500_000)}})
	}
	<-p.over
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(p.ended, os.ErrClosed) {
		t.Errorf("the write: %v, Serve: %v", err, p.ended)
	}
}

func TestAConnectionLeavesNoFileOpen(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := count()
	for range 3 {
		client, files, err := Connect(1<<20, 1<<20, &peer{})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			_ = f.Close()
		}
		client.End(client.Serve()) // the backend is gone
	}
	if after := count(); after != before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
}

func TestBorrowedInputsAreNotCopied(t *testing.T) {
	p := connected(t)
	data, free := p.client.Borrow(200)
	data = append(data[:0], bytes.Repeat([]byte{7}, 200)...)
	x := edgewise.Tensor{Name: "X", Type: edgewise.Uint8, Shape: edgewise.Shape{100}, Data: data[:100:100]}
	y := edgewise.Tensor{Name: "Y", Type: edgewise.Uint8, Shape: edgewise.Shape{72}, Data: data[128:200]}
	at, _ := p.client.in.offset(data)
	run, call, _ := p.send(y, x)
	if call.Inputs[0].Offset != at+128 || call.Inputs[1].Offset != at {
		t.Errorf("they stand at %+v, want in the block at %d", call.Inputs, at)
	}
	used := func() int { p.client.in.mu.Lock(); defer p.client.in.mu.Unlock(); return len(p.client.in.used) }
	free()
	if used() != 1 {
		t.Error("the block was freed while the backend reads it")
	}
	p.write(append(appendNumbers(nil, KindRead, at), answer(run, call)...))
	if !p.client.Await(t.Context()) || used() != 0 {
		t.Errorf("%d blocks are in use after READ", used())
	}
	p.client.End(io.EOF)
}

func TestInputsThatStandElsewhereAreCopied(t *testing.T) {
	p := connected(t)
	if data, _ := p.client.Borrow(1<<18 + 1); data != nil {
		t.Error("more than a quarter of the memory was borrowed")
	}
	mine, free := p.client.Borrow(1000)
	other, freeOther := p.client.Borrow(1000)
	far, freeFar := connected(t).client.Borrow(1000)
	tensor := func(data []byte) edgewise.Tensor {
		return edgewise.Tensor{Name: "X", Type: edgewise.Uint8, Shape: edgewise.Shape{int64(len(data))}, Data: data}
	}
	for name, inputs := range map[string][]edgewise.Tensor{
		"of another process":       {tensor(far)},
		"in memory of the box":     {tensor(make([]byte, 100))},
		"at an odd place":          {tensor(mine[1:])},
		"not at the beginning":     {tensor(mine[64:])},
		"in two blocks":            {tensor(mine), tensor(other)},
		"partly elsewhere":         {tensor(mine), tensor(make([]byte, 100))},
		"behind the borrowed part": {tensor(mine), tensor(p.client.in.data[2048:2100])},
	} {
		run, call, answers := p.send(inputs...)
		at, _ := block(call.Inputs)
		if mineAt, _ := p.client.in.offset(mine); at == mineAt {
			t.Errorf("%s: not copied", name)
		}
		p.write(append(appendNumbers(nil, KindRead, at), answer(run, call)...))
		if !p.client.Await(t.Context()) || len(answers) != 1 {
			t.Errorf("%s: %d answers", name, len(answers))
		}
	}
	for _, end := range []func(){free, freeOther, freeFar} {
		end()
	}
	p.client.End(io.EOF)
	if data, _ := p.client.Borrow(10); data != nil {
		t.Error("memory of a connection that has ended was borrowed")
	}
}

func TestABorrowedBlockOutlivesTheConnection(t *testing.T) {
	p := connected(t)
	data, free := p.client.Borrow(100)
	_, _, answers := p.send(edgewise.Tensor{Name: "X", Type: edgewise.Uint8, Shape: edgewise.Shape{100}, Data: data})
	p.client.End(io.EOF)
	if got := <-answers; !errors.Is(got.Error, io.EOF) {
		t.Errorf("got %+v", got)
	}
	data[0] = 1 // would fault
	free()
	if p.client.in.data != nil {
		t.Error("the memory is still mapped")
	}
}
