package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/child"
)

// The test binary is its own child: childVerb makes it serve the fake backend, and liarVerb one that breaks the
// protocol.
const (
	childVerb = "runner-child"
	liarVerb  = "runner-liar"

	describingLiarVerb = "runner-describing-liar"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childVerb {
		os.Exit(Serve(func(s Start) (edgewise.Backend, error) {
			f := fake{again: s.Again, kept: s.Kept}
			err := json.Unmarshal(s.Options, &f.options)
			if f.options.Describe == "cannot" {
				return struct{ edgewise.Backend }{f}, err
			}
			return f, err
		}))
	}
	if len(os.Args) == 3 && os.Args[1] == liarVerb {
		lie(os.Args[2])
	}
	if len(os.Args) == 3 && os.Args[1] == describingLiarVerb {
		lieAboutModel(os.Args[2])
	}
	os.Exit(m.Run())
}

type fakeOptions struct {
	Describe string // what Describe does; see fake.Describe
	Load     string // what Load does: "", "crash", "hang", "burn", "refuse"
}

// lostDevice is the error of a device on which nothing runs any more.
type lostDevice struct{}

func (lostDevice) Error() string    { return "it answers nothing" }
func (lostDevice) DeviceLost() bool { return true }

// fake is a backend and an instance whose outputs tell it what to do.
type fake struct {
	options fakeOptions
	dir     string
	again   bool
	kept    string
}

func (fake) Formats() []edgewise.Format { return []edgewise.Format{{Platform: "fake"}} }

func (fake) Inspect(context.Context, string, *edgewise.Model) (*edgewise.Inspection, error) {
	return &edgewise.Inspection{Producer: "fake"}, nil
}

func (f fake) Load(_ context.Context, _ *edgewise.Version, dir string, _ edgewise.Device) (edgewise.Instance, error) {
	f.dir = dir
	switch f.options.Load {
	case "crash":
		crash()
	case "hang":
		select {}
	case "burn":
		burn(time.Hour)
	case "refuse":
		return nil, edgewise.Errorf("fake.Load", edgewise.Unsupported, "a model of the wrong kind")
	}
	if f.kept != "" {
		if err := f.compile(); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(dir + "/crash"); err == nil {
		crash()
	}
	if _, err := os.Stat(dir + "/refuse"); err == nil {
		return nil, edgewise.Errorf("fake.Load", edgewise.Unsupported, "told to refuse")
	}
	return f, nil
}

// compile uses what was compiled before, and does what that says; otherwise it compiles.
func (f fake) compile() error {
	text, err := os.ReadFile(f.kept + "/engine")
	if err != nil {
		return os.WriteFile(f.kept+"/engine", []byte("good"), 0o600)
	}
	switch string(text) {
	case "crash":
		crash()
	case "refuse":
		return edgewise.Errorf("fake.Load", edgewise.Internal, "an engine that cannot be read")
	case "lost":
		return edgewise.Errorf("fake.Load", edgewise.Unavailable, "the device is lost")
	}
	return nil
}

func crash() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
	select {}
}

// burn takes processor time.
func burn(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

// Run answers each wanted output by its name: that of an input is its echo. The echo of the first input is made in the
// memory that options.Place returns.
func (f fake) Run(
	ctx context.Context, in []edgewise.Tensor, want []string, options edgewise.RunOptions,
) (*edgewise.Result, error) {
	result := &edgewise.Result{Infer: time.Millisecond, Wide: options.Solo, Free: func() {}}
	for _, name := range want {
		out, err := f.output(ctx, in, name)
		if err != nil {
			return nil, err
		}
		out.Name = name
		result.Outputs = append(result.Outputs, out)
	}
	sizes := make([]int64, len(want))
	for i, out := range result.Outputs {
		if out.Name == in0(in) {
			sizes[i] = int64(len(out.Data))
		}
	}
	for i, memory := range options.Place(sizes) {
		if memory != nil {
			result.Outputs[i].Data = append(memory[:0], result.Outputs[i].Data...)
		}
	}
	return result, nil
}

// in0 is the name of the first input: only its echo is made in place.
func in0(in []edgewise.Tensor) string {
	if len(in) == 0 {
		return ""
	}
	return in[0].Name
}

func (f fake) output(ctx context.Context, in []edgewise.Tensor, name string) (edgewise.Tensor, error) {
	for _, t := range in {
		if t.Name == name {
			return t, nil
		}
	}
	switch name {
	case "crash":
		crash()
	case "hang":
		<-ctx.Done()
		return edgewise.Tensor{}, ctx.Err()
	case "burn":
		burn(1500 * time.Millisecond)
	case "nap":
		burn(maxUnscheduled)
	case "stuck":
		select {}
	case "huge":
		data := make([]byte, 48<<20)
		data[len(data)-1] = 7
		return edgewise.Tensor{Type: edgewise.Uint8, Shape: edgewise.Shape{int64(len(data))}, Data: data}, nil
	case "lose the device":
		return edgewise.Tensor{}, edgewise.Errorf("fake.Run", edgewise.Unavailable, "the device is lost: %w", lostDevice{})
	case "invalid":
		return edgewise.Tensor{}, edgewise.Errorf("fake.Run", edgewise.Invalid, "input out of range")
	}
	text := "done"
	if err := f.attempt(name); err != nil {
		text = err.Error()
	}
	return edgewise.Tensor{Type: edgewise.Bytes, Shape: edgewise.Shape{1}, Data: edgewise.AppendElement(nil, text)}, nil
}

func (fake) Close() error { return nil }

// attempt does what a hostile model would try.
func (f fake) attempt(name string) error {
	switch name {
	case "read":
		_, err := os.ReadFile("/etc/passwd")
		return err
	case "parent's memory":
		_, err := os.ReadFile("/proc/" + itoa(os.Getppid()) + "/environ")
		return err
	case "again":
		return fmt.Errorf("again: %v", f.again)
	case "write":
		return os.WriteFile(f.dir+"/written", []byte("x"), 0o600)
	case "connect":
		_, err := net.Dial("tcp", "127.0.0.1:9")
		return err
	case "kill the parent":
		return syscall.Kill(os.Getppid(), 0)
	case "run a program":
		return syscall.Exec("/bin/true", []string{"true"}, nil)
	case "open many files":
		for n := 0; ; n++ {
			if _, err := os.Open("/dev/null"); err != nil {
				return fmt.Errorf("%d open, %w", n, err)
			}
		}
	case "much address space":
		_, err := unix.Mmap(-1, 0, 8<<30, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
		return err
	case "dump core":
		var l unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_CORE, &l)
		return fmt.Errorf("at most %d bytes", l.Max)
	case "environment":
		return errors.New(strings.Join(os.Environ(), " "))
	case "class":
		attributes, err := unix.SchedGetAttr(0, 0)
		return cmp.Or(err, fmt.Errorf("%d", attributes.Policy))
	case "socket":
		_, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		return err
	}
	return nil
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// setUp returns a Config for the fake backend in children.
func setUp(options fakeOptions) Config {
	return Config{
		Backend: fake{}, Arguments: []string{childVerb}, Options: options, Logger: slog.New(slog.DiscardHandler),
		LoadTimeout: 2 * time.Minute, Grace: 300 * time.Millisecond,
		Restarts: child.Restarts{FirstBackOff: time.Millisecond, LastBackOff: 20 * time.Millisecond},
	}
}

func version() *edgewise.Version {
	return &edgewise.Version{
		ID:    edgewise.ModelID{Name: "x", Version: 1},
		Model: &edgewise.Model{Name: "x", Platform: "fake"},
	}
}

// load starts an instance, which is closed when the test ends.
func load(t testing.TB, c Config, dir string) *Instance {
	t.Helper()
	i, err := New(c).Load(context.Background(), version(), dir, edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i.(*Instance)
}

// lie is a child that answers its first run with the frame that the case names.
func lie(name string) {
	_ = send(controlFD, []byte{byte(kindReady)}, nil, 0)
	buf, rights := make([]byte, maxFrame), make([]byte, 256)
	_, channels, err := receiveWith(controlFD, buf, rights)
	if err != nil || len(channels) != channelDescriptors {
		os.Exit(0)
	}
	memory, err := mapShared(channels[1], channelBytes)
	if err != nil {
		os.Exit(4)
	}
	requests, answers := mailboxes(memory)
	f, _, _ := next(requests, channels[0], buf, rights)
	answers.post(lies()[name](f))
	select {}
}

// lies are answers to a run that wants one output.
func lies() map[string]func(f runFrame) []byte {
	answer := func(change func(d *doneFrame, t *placed)) func(runFrame) []byte {
		return func(f runFrame) []byte {
			d := doneFrame{
				run:     f.run,
				outputs: []placed{{kind: edgewise.FP32, shape: edgewise.Shape{2}, place: place{f.out, f.free, 8}}},
			}
			change(&d, &d.outputs[0])
			return d.append(nil)
		}
	}
	return map[string]func(runFrame) []byte{
		"offset beyond the block": answer(func(_ *doneFrame, t *placed) { t.place.offset = 1 << 40 }),
		"offset that overflows":   answer(func(_ *doneFrame, t *placed) { t.place.offset = ^uint64(0) - 3 }),
		"size beyond the block": answer(func(_ *doneFrame,
			t *placed,
		) {
			t.place.size = 1 << 30
			t.shape = edgewise.Shape{1 << 28}
		}),
		"size against shape":      answer(func(_ *doneFrame, t *placed) { t.shape = edgewise.Shape{3} }),
		"negative shape":          answer(func(_ *doneFrame, t *placed) { t.shape = edgewise.Shape{-1, -2} }),
		"shape that overflows":    answer(func(_ *doneFrame, t *placed) { t.shape = edgewise.Shape{1 << 62, 1 << 62} }),
		"unknown type":            answer(func(_ *doneFrame, t *placed) { t.kind = 77 }),
		"strings without frames":  answer(func(_ *doneFrame, t *placed) { t.kind = edgewise.Bytes; t.place.size = 7 }),
		"another block":           answer(func(_ *doneFrame, t *placed) { t.place.block++ }),
		"another run":             answer(func(d *doneFrame, _ *placed) { d.run++ }),
		"too many outputs":        answer(func(d *doneFrame, t *placed) { d.outputs = append(d.outputs, *t) }),
		"no outputs":              answer(func(d *doneFrame, _ *placed) { d.outputs = nil }),
		"negative time":           answer(func(d *doneFrame, _ *placed) { d.infer = -1 }),
		"too many dimensions":     answer(func(_ *doneFrame, t *placed) { t.shape = make(edgewise.Shape, 200) }),
		"growing to less":         func(f runFrame) []byte { return pair{a: 1}.append(nil, kindGrow) },
		"unknown kind of error":   func(f runFrame) []byte { return failure{f.run, 200, "x"}.append(nil) },
		"a frame cut short":       func(f runFrame) []byte { return doneFrame{run: f.run}.append(nil)[:20] },
		"a frame too long":        func(f runFrame) []byte { return make([]byte, maxFrame+1) },
		"a frame of the parent's": func(f runFrame) []byte { return f.append(nil) },
		"a kind alone":            func(f runFrame) []byte { return []byte{byte(kindFailed)} },
		"an unknown kind":         func(f runFrame) []byte { return []byte{99} },
	}
}
