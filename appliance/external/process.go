package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
	"github.com/edgewise-ai/edgewise/appliance/child"
	"github.com/edgewise-ai/edgewise/host"
)

// farewell is how long a process may take to end by itself.
const farewell = 2 * time.Second

// task is what a process is started for.
type task struct {
	*Backend
	manifest *Manifest
	id       edgewise.ModelID
	model    *edgewise.Model
	folder   *folder
	on       edgewise.Device // the process may use it
	start    backend.Start
	logger   *slog.Logger
}

// process is one process of a backend. It is over when gone is closed.
type process struct {
	*child.Process
	task   *task
	client *backend.Client
	log    *logLines
	gone   chan struct{}
	err    error  // why it ended, for those who wait for answers; read after gone
	note   string // of READY
	counts bool   // READY said that the model is asked whether it is ready

	pinged atomic.Int64 // when a PING was sent that has no answer, in nanoseconds; 0: there is none
	memory atomic.Int64 // that the backend counts itself

	mu       sync.Mutex        // guards what follows
	execs    map[uint64]asking // requests to other models
	controls int
}

// spawn starts a process. It has not been told what to load.
func (t *task) spawn() (*process, error) {
	p := &process{
		task: t, gone: make(chan struct{}), execs: map[uint64]asking{}, log: newLogLines(t.logger),
	}
	client, files, err := backend.Connect(int64(t.manifest.Input), int64(t.manifest.Output), p)
	if err != nil {
		return nil, host.NameLimit(err)
	}
	p.client = client
	p.Process, err = t.process(child.Command{Files: files, Line: p.log.output, Unprotected: t.unprotected})
	for _, f := range files {
		_ = f.Close()
	}
	if err != nil {
		client.End(err)
		return nil, host.NameLimit(err)
	}
	if err := host.EndEarly(p.PID, host.ScoreOfModels); err != nil {
		t.logger.Warn("the kernel may end the box before a model when memory runs out", "pid", p.PID, "error", err)
	}
	go p.serve()
	return p, nil
}

// process starts the program of the backend in its sandbox.
func (t *task) process(command child.Command) (*child.Process, error) {
	m := t.manifest
	command.Access, command.Dir = m.access(t.folder.scratch, t.folder.root, t.folder.files), m.Folder
	arguments, err := t.arguments()
	if err != nil {
		return nil, err
	}
	if t.on.Kind != edgewise.CPU && t.Device != nil {
		command.Access = command.Access.With(t.Device(t.on))
	}
	limits := child.Limits{
		AnyFileSize: t.on.Kind != edgewise.CPU, // drivers make files in memory
		Memory:      uint64(m.Memory),
		FileSize:    uint64(cmp.Or(m.Scratch, m.Output)), // a program without mmap writes to the output memory as to a file
	}
	release, err := command.Program(arguments, limits, child.Permission{
		Pairs: true, Network: m.Network, Forks: m.Processes,
	})
	if err != nil {
		return nil, err
	}
	defer release()
	return child.Start(command)
}

// arguments is the command of the backend.
func (t *task) arguments() ([]string, error) {
	list := make([]string, len(t.manifest.Command))
	for i, word := range t.manifest.Command {
		list[i] = t.manifest.expand(word, map[string]string{"scratch": t.folder.scratch, "model": t.folder.version})
	}
	var err error
	list[0], err = child.Find(list[0])
	return list, err
}

// serve reads what the process sends until it ends, and then ends everything that waits for it.
func (p *process) serve() {
	err := p.client.Serve()
	switch {
	case errors.Is(err, backend.ErrProtocol):
		p.Kill("killed: " + err.Error())
	case errors.Is(err, os.ErrClosed):
		p.Kill("killed: it did not read what it was sent")
	}
	p.Await(farewell, "killed: it closed its socket and went on")
	p.Drain()
	p.err = edgewise.Errorf("external.Run", edgewise.Unavailable, "model %v: its process died (%s)", p.task.id, p.Cause())
	p.mu.Lock()
	for _, x := range p.execs {
		x.end()
	}
	p.mu.Unlock()
	p.client.End(p.err)
	close(p.gone)
}

// maxNote bounds what is kept of a process's note, in bytes.
const maxNote = 500

// load tells the process what to load and waits until it has. Errors: the backend's own, Internal when the process dies,
// Deadline or Canceled.
func (p *process) load(ctx context.Context) (*backend.Ready, error) {
	ctx, cancel := context.WithTimeout(ctx, p.task.manifest.LoadTimeout)
	defer cancel()
	ready, err := p.client.Start(ctx, &p.task.start)
	if err == nil {
		p.counts, p.note = ready.Checks, strings.ToValidUTF8(ready.Note[:min(len(ready.Note), maxNote)], "")
		child.RestorePriority(p.PID)
		return ready, nil
	}
	return nil, p.failure(ctx, err)
}

// failure says why a load failed.
func (p *process) failure(ctx context.Context, err error) error {
	const op = "external.Load"
	id := p.task.id
	own, ok := errors.AsType[*backend.Error](err)
	switch {
	case ok:
		p.end()
		return edgewise.Errorf(op, own.Kind(), "model %v: %s", id, own.Message)
	case ctx.Err() != nil:
		p.Kill("killed: its load took too long or was given up")
		<-p.gone
		return edgewise.Errorf(op, edgewise.KindOf(ctx.Err()), "model %v: its load was ended: %w", id, ctx.Err())
	}
	<-p.gone
	text := ""
	if last := p.log.last(); last != "" {
		text = ": " + last
	}
	return edgewise.Errorf(op, edgewise.Internal, "model %v: its process died (%s) while loading%s", id, p.Cause(), text)
}

// end lets the process finalize its model and waits for its end.
func (p *process) end() {
	if err := p.client.Stop(); err != nil {
		p.client.Close()
	}
	child.GiveWay(p.PID)
	p.Await(farewell, "killed: it did not end when it was told to")
	<-p.gone
}

// Pong notes that the process lives.
func (p *process) Pong(bytes uint64) {
	p.pinged.Store(0)
	p.memory.Store(int64(min(bytes, 1<<62)))
}

// Log writes a line of the backend's into the log.
func (p *process) Log(l backend.Level, line string) { p.log.line(p.PID, levels[l], line) }

var levels = []slog.Level{
	backend.Verbose: slog.LevelDebug, backend.Info: slog.LevelInfo, backend.Warning: slog.LevelWarn,
	backend.Err: slog.LevelError,
}

// Metric changes a metric of the model's own.
func (p *process) Metric(m *backend.Metric) {
	if err := p.task.Metrics.apply(p.task.id, m); err != nil {
		p.log.line(p.PID, slog.LevelWarn, "metric "+strconv.Quote(m.Family)+": "+err.Error())
	}
}

// Intervals of what is looked at while a process runs.
const (
	watchInterval = time.Second
	pingInterval  = 10 * time.Second
	pingTimeout   = 10 * time.Second
)

// watch ends a process that uses more than it may, or shows no sign of life.
func (p *process) watch() {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-p.gone:
			return
		case now := <-ticker.C:
			p.inspect()
			if sent := p.pinged.Load(); sent != 0 {
				if now.Sub(time.Unix(0, sent)) > pingTimeout {
					p.Kill(fmt.Sprintf("killed: it did not answer a PING for %v", pingTimeout))
				}
			} else if now.Sub(last) > pingInterval {
				last = now
				p.pinged.Store(now.UnixNano())
				_ = p.client.Ping()
			}
		}
	}
}

// inspect ends a process that uses too much memory or disk.
func (p *process) inspect() {
	m := p.task.manifest
	used, _ := host.ProcessBytes("/", p.PID, privateMemory)
	shared, _ := host.ProcessBytes("/", p.PID, sharedMemory)
	if used += max(0, shared-int64(m.Input+m.Output)); used > int64(m.Memory) {
		p.Kill(fmt.Sprintf("killed: it took %d bytes of memory, and may take %d", used, m.Memory))
	}
	if p.task.folder.scratch == "" {
		return
	}
	if used, many := usage(p.task.folder.scratch); used > int64(m.Scratch) || many {
		p.Kill(fmt.Sprintf("killed: its files take %d bytes of disk, and may take %d in at most %d files", used, m.Scratch,
			maxScratchFiles))
	}
}

// Fields of a process's status: its own memory, and what it may share with others.
const (
	privateMemory = "RssAnon"
	sharedMemory  = "RssShmem"
)

// title is what a log line says of a version.
func title(id edgewise.ModelID) []any {
	return []any{"model", id.Name, "version", id.Version}
}

// logLines writes the lines of a process to the log, within bounds.
type logLines struct {
	logger *slog.Logger
	flood  int // lines of the output that were dropped

	mu      sync.Mutex // guards what follows
	tail    []string   // the last lines
	room    int        // lines that may be written now
	refill  time.Time
	dropped int
}

// Bounds of what a process may write into the log: so many lines at once, and as many again each logPeriod.
const (
	logBurst  = 200
	logPeriod = 10 * time.Second
	tailLines = 4
	// of lines beyond that bound so many are read in a time, so that a flood of them takes little of the box
	floodLines = 64
	floodTime  = time.Millisecond
)

func newLogLines(logger *slog.Logger) *logLines {
	return &logLines{logger: logger, room: logBurst, refill: time.Now()}
}

// output writes a line of the process's output.
func (l *logLines) output(pid int, line []byte) {
	if l.line(pid, slog.LevelInfo, string(line)) {
		return
	}
	if l.flood++; l.flood%floodLines == 0 {
		time.Sleep(floodTime)
	}
}

// line writes a line, unless there were too many lately.
func (l *logLines) line(pid int, level slog.Level, text string) bool {
	text = strings.ToValidUTF8(text[:min(len(text), child.MaxLine)], "?")
	l.mu.Lock()
	now := time.Now()
	if len(l.tail) == tailLines {
		l.tail = l.tail[1:]
	}
	l.tail = append(l.tail, text)
	dropped := 0
	if now.Sub(l.refill) > logPeriod {
		dropped, l.dropped, l.room, l.refill = l.dropped, 0, logBurst, now
	}
	l.room--
	write := l.room >= 0
	if !write {
		l.dropped++
	}
	l.mu.Unlock()
	if dropped > 0 {
		l.logger.Warn("lines of a model were dropped", "pid", pid, "lines", dropped)
	}
	if write {
		l.logger.Log(context.Background(), level, text, "pid", pid)
	}
	return write
}

// last returns the last lines, for the message of a process that died.
func (l *logLines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.tail, "; ")
}
