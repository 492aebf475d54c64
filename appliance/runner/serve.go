package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// worker is the process's side: the versions that the process has loaded, and what they have in common.
type worker struct {
	task       task
	cores      unix.CPUSet // on which the process may run
	servers    []*server   // in the order of the task's members
	activeRuns activeRuns
}

// server is one loaded version, and the blocks that its runs use.
type server struct {
	child    *worker
	instance edgewise.Instance

	mu     sync.Mutex
	blocks map[uint32]mapping
}

// activeRuns are the runs in progress.
type activeRuns struct {
	mu    sync.Mutex
	runs  map[uint64]running // by channel
	early map[uint64]uint64  // by channel: a run that was ended before it had begun
}

// running is a run in progress.
type running struct {
	run  uint64
	stop context.CancelFunc
}

// runContext is a context for the runs of a channel, one after the other. It is replaced after it has ended, because
// making one takes as long as a part of a short run.
type runContext struct {
	context.Context
	stop context.CancelFunc
}

func newRunContext() (l runContext) {
	l.Context, l.stop = context.WithCancel(context.Background())
	return l
}

// renew replaces a context that has ended.
func (l *runContext) renew() {
	if l.Err() != nil {
		*l = newRunContext()
	}
}

// Start is what a child makes its backend from.
type Start struct {
	Options json.RawMessage // that the parent's Config carried
	Again   bool            // clients wait for its models, which are loaded as fast as others serve: one before it died, or rests
	Kept    string          // a folder for what is compiled for its model; "": nothing is kept
}

// Serve is the whole life of a child: it lowers its own rights, makes a backend, loads its models, and runs them until the
// parent closes the socket or dies. It returns the process's exit code, and only when it was not started by a Backend or
// the load failed.
func Serve(backend func(Start) (edgewise.Backend, error)) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) // the parent decides
	h := &worker{activeRuns: activeRuns{runs: map[uint64]running{}, early: map[uint64]uint64{}}}
	if err := h.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "edgewise: a process for a model, which only edgewise itself starts:", err)
		return 1
	}
	ready := make(chan struct{})
	go h.listen(ready)
	if number, err := h.load(backend); err != nil {
		_ = send(controlFD, failure{run: uint64(number), kind: edgewise.KindOf(err), text: err.Error()}.append(nil), nil, 0)
		return 1
	}
	if send(controlFD, []byte{byte(kindReady)}, nil, 0) != nil {
		return 1
	}
	runtime.GOMAXPROCS(runtime.NumCPU() + spareProcessors)
	close(ready)
	select {} // listen ends the process
}

// spareProcessors are more of Go's processors than a child needs. While one is free, Go's monitor leaves those of
// channels alone that wait in the kernel, and a run finds its own again without asking for it.
const spareProcessors = 8

// prepare reads the task and lowers the rights of the process.
func (h *worker) prepare() error {
	unix.CloseOnExec(controlFD)
	if err := unix.SchedGetaffinity(0, &h.cores); err != nil {
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
	if err := json.Unmarshal(content, &h.task); err != nil {
		return err
	}
	if err := resetFaultSignals(); err != nil {
		return err
	}
	limits := child.Limits{AddressSpace: h.task.AddressSpace}
	if h.onGPU() { // its driver takes address space for all the memory that there is, and makes files in memory
		limits = child.Limits{AnyFileSize: true}
	}
	return errors.Join(
		child.Limit(limits), child.LimitTime(h.task.LoadSeconds), child.Refuse(child.Permission{Forks: true}),
	)
}

func (h *worker) onGPU() bool {
	return slices.ContainsFunc(h.task.Members, func(m member) bool { return m.Device.Kind != edgewise.CPU })
}

// resetFaultSignals gives the signals of faulty native code, and of a load without end, their default action, so that
// the parent sees which one it was: Go's own handler would print every goroutine and end with a mere exit code.
func resetFaultSignals() error {
	for _, s := range []syscall.Signal{
		syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGABRT,
		syscall.SIGSYS, syscall.SIGXCPU,
	} {
		action := [4]uint64{} // SIG_DFL, no flags, no restorer, empty mask
		if _, _, number := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0,
			0); number != 0 {
			return fmt.Errorf("default action of %v: %w", s, number)
		}
	}
	return nil
}

// load loads the members, each within its own bound of processor time. It returns the number of the one that failed.
func (h *worker) load(backend func(Start) (edgewise.Backend, error)) (number int, err error) {
	last := len(h.task.Members) - 1
	b, err := backend(Start{Options: h.task.Options, Again: h.task.Again, Kept: h.task.Kept})
	if err != nil {
		return last, err
	}
	for n, m := range h.task.Members {
		if err := h.allow(); err != nil {
			return n, err
		}
		if m.Describe {
			if err := describe(b, m); err != nil {
				return n, err
			}
			unix.Exit(0)
		}
		instance, err := b.Load(context.Background(), m.Version, m.Dir, m.Device)
		if err != nil {
			return n, err
		}
		h.servers = append(h.servers, &server{child: h, instance: instance, blocks: map[uint32]mapping{}})
	}
	return last, child.LimitTime(0)
}

// allow gives the next load its processor time, beside what the process has taken so far.
func (h *worker) allow() error {
	if h.task.LoadSeconds == 0 {
		return nil
	}
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return err
	}
	return child.LimitTime(h.task.LoadSeconds + uint64(used.Utime.Sec+used.Stime.Sec))
}

// listen follows the control socket, whose end ends the process, whatever native code is doing.
func (h *worker) listen(ready <-chan struct{}) {
	buf, rights := make([]byte, maxFrame), make([]byte, unix.CmsgSpace(4*channelDescriptors))
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
		h.obey(kind(frame[0]), f, descriptors)
	}
}

// obey does what the parent says on the control socket.
func (h *worker) obey(k kind, f pair, descriptors []int) {
	member := f.b
	if k == kindUnload {
		member = f.a
	}
	if k != kindTerminate && member >= uint64(len(h.servers)) {
		unix.Exit(1)
	}
	switch k {
	case kindChannel, kindBackground:
		if len(descriptors) == channelDescriptors {
			go h.servers[member].channel(f.a, descriptors[0], descriptors[1], &wakePipe{fd: descriptors[2]}, k == kindBackground)
		}
	case kindTerminate:
		h.activeRuns.terminate(f.a, f.b)
	case kindForget:
		h.servers[member].forget(uint32(f.a))
	case kindUnload:
		go h.servers[member].unload()
	}
}

// channelDescriptors come with a channel: its socket, its memory and the wakePipe of its answers.
const channelDescriptors = 3

// unload gives up what a version has, of which no run is in progress and no more will come.
func (s *server) unload() {
	_ = s.instance.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, m := range s.blocks {
		delete(s.blocks, id)
		m.unmap()
	}
}

func (f *activeRuns) terminate(channel, run uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, ok := f.runs[channel]; ok && r.run == run {
		r.stop()
		return
	}
	f.early[channel] = run
}

func (s *server) forget(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.blocks[id]; ok {
		delete(s.blocks, id)
		m.unmap()
	}
}

// channel serves the runs of one channel, one after the other, on a thread of its own, until the version is unloaded.
func (s *server) channel(id uint64, fd, file int, wakePipe *wakePipe, background bool) {
	runtime.LockOSThread() // the thread ends with the channel
	if background {
		child.EnterIdle()
	}
	memory, err := mapShared(file, channelBytes)
	if err != nil {
		unix.Exit(1)
	}
	_ = unix.Close(file)
	requests, answers := mailboxes(memory)
	answers.wakePipe = wakePipe
	buf, rights := make([]byte, maxFrame), make([]byte, unix.CmsgSpace(4*maxAttached))
	yielded := time.Now()
	life := newRunContext()
	for core := int32(anywhere); ; {
		f, descriptors, err := next(requests, fd, buf, rights)
		if err != nil {
			_ = unix.Munmap(memory)
			_ = unix.Close(fd)
			_ = unix.Close(wakePipe.fd)
			return
		}
		began := time.Now()
		err = s.attach(f.attach, descriptors)
		var answer []byte
		if err == nil {
			answer, err = s.run(&life, id, fd, answers, f, buf)
		}
		if err != nil {
			answer = failure{f.run, edgewise.KindOf(err), err.Error()}.append(buf[:0])
		}
		answers.post(answer)
		if err != nil && edgewise.DeviceLost(err) {
			unix.Exit(deviceLost)
		}
		if f.core != core {
			core = f.core
			moveTo(int(core), &s.child.cores)
		}
		if now := time.Now(); mustYield(yielded, began, now) {
			yielded = now
			yieldToScheduler(int(core), &s.child.cores, background)
		}
	}
}

// next waits for a run. What is not one ends the process. Error: io.EOF when no more will come.
func next(requests *mailbox, fd int, buf, rights []byte) (f runFrame, descriptors []int, err error) {
	frame, err := requests.receive(buf, false)
	if errors.Is(err, io.EOF) {
		return f, nil, err
	}
	if err == nil && len(frame) == 0 {
		frame, descriptors, err = receiveWith(fd, buf, rights)
	}
	if err == nil && kind(frame[0]) == kindRun {
		if f, err = decodeRun(frame[1:]); err == nil && len(descriptors) == len(f.attach) {
			return f, descriptors, nil
		}
	}
	unix.Exit(1)
	return f, nil, err
}

// deviceLost is the exit code of a process whose device runs nothing any more. Another process may use it again.
const deviceLost = 75

// attach maps blocks that are new. The same one may come on several channels at a time, and one that only its sender
// uses longer than it was.
func (s *server) attach(list []attached, descriptors []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for i, a := range list {
		if old, known := s.blocks[a.block]; (!known || uint64(len(old.data)) < a.size) && err == nil {
			var m mapping
			if m, err = s.mapped(descriptors[i], int64(a.size)); err == nil {
				s.blocks[a.block] = m
				old.unmap()
			}
		}
		_ = unix.Close(descriptors[i])
	}
	if err != nil {
		return edgewise.Errorf("runner.Serve", edgewise.Exhausted, "mapping shared memory: %w", err)
	}
	return nil
}

// pinner is an Instance on a device, which reads and writes memory faster when it has been told of it beforehand.
type pinner interface {
	// Pin tells of memory that was mapped from the operating system and begins at a page. unpin ends that, once, before it
	// is unmapped; no Run uses it then. A Run may also use other memory. Error: Exhausted, Unavailable; the memory can be
	// used all the same.
	Pin(memory []byte) (unpin func(), err error)
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
	if pinner, ok := s.instance.(pinner); ok && err == nil {
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
	if m.data != nil {
		_ = unix.Munmap(m.data)
	}
}

func (s *server) block(id uint32) mapping {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocks[id]
}

func (f *activeRuns) begin(channel uint64, r running) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs[channel] = r
	if f.early[channel] == r.run {
		r.stop()
	}
}

func (f *activeRuns) finish(channel uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.runs, channel)
}

// grow asks the parent for a longer block and maps it beside the old one, in which inputs and outputs may still stand.
// The caller unmaps the old one.
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
		return mapping{}, edgewise.Errorf("runner.Serve", edgewise.Exhausted,
			"outputs of %d bytes do not fit into the shared memory that the runs of a model may take", need)
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
