package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// server is the child's side: one instance, and the lanes on which it is asked to run.
type server struct {
	instance edgewise.Instance
	task     task
	cores    unix.CPUSet // on which the process may run

	mu     sync.Mutex
	blocks map[uint32]mapping
	runs   map[uint64]running // by lane
	early  map[uint64]uint64  // by lane: a run that was ended before it had begun
}

// running is a run in progress.
type running struct {
	run  uint64
	stop context.CancelFunc
}

// Serve is the whole life of a child: it lowers its own rights, makes a backend from the options that the parent's
// Config carried, loads the one model, and runs it until the parent closes the socket or dies. It returns the process's
// exit code, and only when it was not started by a Backend or the load failed.
func Serve(backend func(options json.RawMessage) (edgewise.Backend, error)) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) // the parent decides
	s := &server{blocks: map[uint32]mapping{}, runs: map[uint64]running{}, early: map[uint64]uint64{}}
	if err := s.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "edgewise: a process for a model, which only edgewise itself starts:", err)
		return 1
	}
	ready := make(chan struct{})
	go s.listen(ready)
	err := s.load(backend)
	if err != nil {
		return s.fail(err)
	}
	if send(controlFD, []byte{byte(kindReady)}, nil, 0) != nil {
		return 1
	}
	runtime.GOMAXPROCS(runtime.NumCPU() + spareProcessors)
	close(ready)
	select {} // listen ends the process
}

// spareProcessors are more of Go's processors than a child needs. While one is free, Go's monitor leaves those of lanes
// alone that wait in the kernel, and a run finds its own again without asking for it.
const spareProcessors = 8

// prepare reads the task and lowers the rights of the process.
func (s *server) prepare() error {
	unix.CloseOnExec(controlFD)
	if err := unix.SchedGetaffinity(0, &s.cores); err != nil {
		return err
	}
	if _, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return err
	}
	f := os.NewFile(taskFD, "task")
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	content := make([]byte, info.Size())
	if _, err := f.ReadAt(content, 0); err != nil {
		return err
	}
	if err := json.Unmarshal(content, &s.task); err != nil {
		return err
	}
	if err := dieOfFaults(); err != nil {
		return err
	}
	return errors.Join(limit(s.task.AddressSpace, s.task.Device), limitTime(s.task.LoadSeconds), refuse())
}

// dieOfFaults gives the signals of faulty native code, and of a load without end, their default action, so that the parent sees which one it was:
// Go's own handler would print every goroutine and end with a mere exit code.
func dieOfFaults() error {
	for _, s := range []syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGABRT, syscall.SIGSYS, syscall.SIGXCPU} {
		action := [4]uint64{} // SIG_DFL, no flags, no restorer, empty mask
		if _, _, number := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0); number != 0 {
			return fmt.Errorf("default action of %v: %w", s, number)
		}
	}
	return nil
}

func (s *server) load(backend func(json.RawMessage) (edgewise.Backend, error)) error {
	b, err := backend(s.task.Options)
	if err != nil {
		return err
	}
	s.instance, err = b.Load(context.Background(), s.task.Version, s.task.Dir, s.task.Device)
	if err != nil {
		return err
	}
	return limitTime(0)
}

func (s *server) fail(err error) int {
	_ = send(controlFD, failure{kind: edgewise.KindOf(err), text: err.Error()}.append(nil), nil, 0)
	return 1
}

// listen follows the control socket, whose end ends the process, whatever native code is doing.
func (s *server) listen(ready <-chan struct{}) {
	buf, rights := make([]byte, maxFrame), make([]byte, unix.CmsgSpace(4*2))
	for {
		frame, descriptors, err := receiveWith(controlFD, buf, rights)
		if err != nil {
			unix.Exit(0) // at once: there is nothing to put in order
		}
		<-ready
		f, err := decodePair(frame[1:])
		if err != nil {
			unix.Exit(1)
		}
		switch kind(frame[0]) {
		case kindLane:
			if len(descriptors) == 2 {
				go s.lane(f.a, descriptors[0], descriptors[1])
			}
		case kindTerminate:
			s.terminate(f.a, f.b)
		case kindForget:
			s.forget(uint32(f.a))
		}
	}
}

func (s *server) terminate(lane, run uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.runs[lane]; ok && r.run == run {
		r.stop()
		return
	}
	s.early[lane] = run
}

func (s *server) forget(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.blocks[id]; ok {
		delete(s.blocks, id)
		m.unmap()
	}
}

// lane serves the runs of one lane, one after the other, on a thread of its own.
func (s *server) lane(id uint64, fd, file int) {
	runtime.LockOSThread()
	memory, err := mapShared(file, laneBytes)
	if err != nil {
		unix.Exit(1)
	}
	_ = unix.Close(file)
	there, back := mailboxes(memory)
	buf, rights := make([]byte, maxFrame), make([]byte, unix.CmsgSpace(4*maxAttached))
	for core, look := int32(anywhere), time.Duration(0); ; {
		f, descriptors := next(there, look, fd, buf, rights)
		err := s.attach(f.attach, descriptors)
		var answer []byte
		if err == nil {
			answer, err = s.run(id, fd, back, f, buf)
		}
		if err != nil {
			answer = failure{f.run, edgewise.KindOf(err), err.Error()}.append(buf[:0])
		}
		back.post(answer)
		if err != nil && edgewise.DeviceLost(err) {
			unix.Exit(deviceLost)
		}
		if look = time.Duration(f.look); f.core != core {
			core = f.core
			moveTo(int(core), &s.cores)
		}
	}
}

// next waits for a run. What is not one ends the process.
func next(there *mailbox, look time.Duration, fd int, buf, rights []byte) (f runFrame, descriptors []int) {
	frame, err := there.take(buf, look)
	if err == nil && len(frame) == 0 {
		frame, descriptors, err = receiveWith(fd, buf, rights)
	}
	if err == nil && kind(frame[0]) == kindRun {
		if f, err = decodeRun(frame[1:]); err == nil && len(descriptors) == len(f.attach) {
			return f, descriptors
		}
	}
	unix.Exit(1)
	return f, nil
}

// deviceLost is the exit code of a process whose device runs nothing any more. Another process may use it again.
const deviceLost = 75

// attach maps blocks that are new. The same one may come on several lanes at a time.
func (s *server) attach(list []attached, descriptors []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for i, a := range list {
		if _, known := s.blocks[a.block]; !known && err == nil {
			var m mapping
			if m, err = s.mapped(descriptors[i], int64(a.size)); err == nil {
				s.blocks[a.block] = m
			}
		}
		_ = unix.Close(descriptors[i])
	}
	if err != nil {
		return edgewise.Errorf("runner.Serve", edgewise.Exhausted, "mapping shared memory: %w", err)
	}
	return nil
}

// mapping is a block in the child's memory.
type mapping struct {
	data  []byte
	unpin func() // nil when the instance was not told of it
}

// mapped maps a block and tells the instance of it, if it wants to know.
func (s *server) mapped(fd int, size int64) (mapping, error) {
	data, err := mapShared(fd, size)
	m := mapping{data: data}
	if pinner, ok := s.instance.(edgewise.Pinner); ok && err == nil {
		if m.unpin, err = pinner.Pin(data); err != nil {
			m.unpin, err = nil, nil // slower, and right all the same
		}
	}
	return m, err
}

func (m mapping) unmap() {
	if m.unpin != nil {
		m.unpin()
	}
	_ = unix.Munmap(m.data)
}

func (s *server) block(id uint32) mapping {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocks[id]
}

func (s *server) begin(lane uint64, r running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[lane] = r
	if s.early[lane] == r.run {
		r.stop()
	}
}

func (s *server) finish(lane uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, lane)
}

// grow asks the parent for a longer block and maps it beside the old one, in which inputs and outputs may still stand. The
// caller unmaps the old one.
func (s *server) grow(id uint32, need uint64, fd int, back *mailbox) (mapping, error) {
	back.post(pair{a: need}.append(nil, kindGrow))
	frame, descriptors, err := receiveWith(fd, make([]byte, 64), make([]byte, unix.CmsgSpace(4)))
	if err != nil {
		return mapping{}, err
	}
	f, err := decodePair(frame[1:])
	if err != nil || kind(frame[0]) != kindGrown {
		return mapping{}, errFrame
	}
	if f.a < need || len(descriptors) != 1 {
		return mapping{}, edgewise.Errorf("runner.Serve", edgewise.Exhausted, "outputs of %d bytes do not fit into the shared memory that the runs of a model may take", need)
	}
	m, err := s.mapped(descriptors[0], int64(f.a))
	_ = unix.Close(descriptors[0])
	if err != nil {
		return mapping{}, edgewise.Errorf("runner.Serve", edgewise.Exhausted, "mapping shared memory: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks[id] = m
	return m, nil
}
