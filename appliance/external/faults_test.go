package external

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

// raw is a backend that writes frames as it likes.
type raw struct {
	socket *os.File
}

// read returns the next frame's kind and body.
func (r *raw) read() (backend.Kind, []byte) {
	head := make([]byte, 4)
	if _, err := readFull(r.socket, head); err != nil {
		os.Exit(0)
	}
	body := make([]byte, binary.LittleEndian.Uint32(head))
	if _, err := readFull(r.socket, body); err != nil {
		os.Exit(0)
	}
	if k := backend.Kind(body[0]); k != backend.KindPing {
		return k, body[1:]
	}
	r.frame(backend.KindPong, string(body[1:]), uint64(0))
	return r.read()
}

func readFull(f *os.File, into []byte) (n int, err error) {
	for n < len(into) && err == nil {
		var m int
		m, err = f.Read(into[n:])
		n += m
	}
	return n, err
}

// frame writes a frame of values: numbers of their size, strings as they are.
func (r *raw) frame(k backend.Kind, values ...any) {
	body := []byte{byte(k)}
	for _, v := range values {
		switch v := v.(type) {
		case string:
			body = append(body, v...)
		case byte:
			body = append(body, v)
		case uint16:
			body = binary.LittleEndian.AppendUint16(body, v)
		case uint32:
			body = binary.LittleEndian.AppendUint32(body, v)
		case uint64:
			body = binary.LittleEndian.AppendUint64(body, v)
		}
	}
	_, _ = r.socket.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...))
}

// response is a response of one FP32 tensor of n elements at an offset, said to have size bytes.
func (r *raw) response(call uint64, final byte, n, offset, size uint64) {
	r.frame(backend.KindResponse, call, final, uint16(0), uint16(1), uint16(1), "Y", byte(edgewise.FP32), byte(2), uint64(1), n,
		offset, size)
}

// ready answers START, and returns the run and the call of the first RUN.
func ready() (r *raw, run, call uint64) {
	r = started()
	run, call = r.next()
	return r, run, call
}

func started() *raw {
	r := &raw{os.NewFile(backend.SocketFD, "socket")}
	r.read()
	r.frame(backend.KindReady, uint32(2), "{}")
	return r
}

// next returns the run and the call of the next RUN.
func (r *raw) next() (run, call uint64) {
	for {
		if k, body := r.read(); k == backend.KindRun {
			return binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8+1+2:])
		}
	}
}

// linger waits for the end of the connection.
func (r *raw) linger() error {
	for {
		if k, _ := r.read(); k == backend.KindStop {
			return nil
		}
	}
}

// answered sends one response with what a model has found out as its error.
func answered(found string) error {
	r, run, call := ready()
	r.frame(backend.KindResponse, call, byte(3), byte(backend.Unknown), uint32(len(found)), found, uint16(0), uint16(0))
	r.frame(backend.KindDone, run)
	return r.linger()
}

// said tells whether something was refused, and by what.
func said(err error) error {
	if err == nil {
		return answered("it was allowed")
	}
	return answered("refused: " + err.Error())
}

// faults are backends that misbehave, by what they do.
var faults = map[string]func() error{
	"says nothing":  func() error { time.Sleep(time.Hour); return nil },
	"says nonsense": func() error { return (&raw{os.NewFile(backend.SocketFD, "")}).nonsense() },
	"dies at the start": func() error {
		fmt.Fprintln(os.Stderr, "SyntaxError: model.py line 7")
		os.Exit(3)
		return nil
	},
	"dies while loading": func() error {
		(&raw{os.NewFile(backend.SocketFD, "")}).read()
		_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
		return nil
	},
	"refuses its model": func() error {
		r := &raw{os.NewFile(backend.SocketFD, "")}
		r.read()
		text := `{"error":{"code":4,"message":"the file is no model"}}`
		r.frame(backend.KindReady, uint32(len(text)), text)
		return nil
	},
	"says READY twice": func() error {
		r, _, _ := ready() // before that, the request could come when the process has died of it
		r.frame(backend.KindReady, uint32(2), "{}")
		return r.linger()
	},
	"dies in a run":     func() error { ready(); os.Exit(5); return nil },
	"closes its socket": func() error { ready(); _ = unix.Close(backend.SocketFD); time.Sleep(time.Hour); return nil },
	"lies about the size": func() error {
		r, _, call := ready()
		r.response(call, 1, 4, 0, 4)
		return r.linger()
	},
	"points behind its memory": func() error {
		r, _, call := ready()
		r.response(call, 1, 1<<40, 0, 1<<42)
		return r.linger()
	},
	"points before its memory": func() error {
		r, _, call := ready()
		r.response(call, 1, 16, math.MaxUint64-63, 64)
		return r.linger()
	},
	"sends a block twice": func() error {
		r, _, call := ready()
		r.response(call, 0, 16, 0, 64)
		r.response(call, 0, 16, 0, 64)
		return r.linger()
	},
	"answers twice": func() error {
		r, _, call := ready()
		r.response(call, 1, 16, 0, 64)
		r.response(call, 1, 16, 64, 64)
		return r.linger()
	},
	"answers a call that there is not": func() error {
		r, _, call := ready()
		r.response(call+7, 1, 16, 0, 64)
		return r.linger()
	},
	"says DONE twice": func() error {
		r, run, _ := ready()
		r.frame(backend.KindDone, run)
		r.frame(backend.KindDone, run)
		return r.linger()
	},
	"sends a long frame": func() error {
		r, _, _ := ready()
		_, _ = r.socket.Write(binary.LittleEndian.AppendUint32(nil, backend.MaxFrame+1))
		return r.linger()
	},
	"sends a short frame": func() error {
		r, _, call := ready()
		r.frame(backend.KindResponse, call)
		return r.linger()
	},
	"sends without end": func() error {
		r, _, call := ready()
		for n := range uint64(1000) {
			r.response(call, 0, 16, 64*n, 64)
		}
		return r.linger()
	},
	"sends strings that are none": func() error {
		r, _, call := ready()
		r.frame(backend.KindResponse, call, byte(1), uint16(0), uint16(1), uint16(1), "T", byte(edgewise.Bytes), byte(2), uint64(1),
			uint64(1), uint64(0), uint64(8))
		return r.linger()
	},
	"never answers": func() error { r, _, _ := ready(); return r.linger() },
	"does not stop": func() error { r := started(); r.forever(); return nil },
	"writes the input": func() error {
		_, err := unix.Mmap(backend.InputFD, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return said(err)
	},
	"resizes the output": func() error { return said(unix.Ftruncate(backend.OutputFD, 1<<40)) },
	"writes past its memory": func() error {
		ready()
		data, err := unix.Mmap(backend.OutputFD, int64(defaults.Output), 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			data[0] = 1
		}
		return err
	},
	"forks":         func() error { return said(exec.Command("/bin/true").Run()) },
	"leaves":        func() error { _, err := unix.Setsid(); return said(err) },
	"opens sockets": func() error { _, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); return said(err) },
	"signals":       func() error { return said(unix.Kill(unix.Getppid(), unix.SIGTERM)) },
	"reads files":   func() error { _, err := os.ReadFile("/etc/passwd"); return said(err) },
	"writes files":  func() error { return said(os.WriteFile("/dev/shm/edgewise-test", []byte("x"), 0o600)) },
	"fills the disk": func() error {
		r := started()
		for n := 0; ; n++ { // until it is killed
			if os.WriteFile(filepath.Join(os.Getenv("TMPDIR"), fmt.Sprint(n)), make([]byte, 1<<19), 0o600) != nil {
				break
			}
		}
		return r.linger()
	},
	"writes a long file": func() error {
		return said(os.WriteFile(filepath.Join(os.Getenv("TMPDIR"), "x"), make([]byte, 2<<20), 0o600))
	},
	"eats memory": func() error {
		ready()
		var all [][]byte
		for {
			all = append(all, make([]byte, 16<<20))
			for i := 0; i < 16<<20; i += 4096 {
				all[len(all)-1][i] = 1
			}
		}
	},
	"shares memory": func() error {
		r := started()
		data, err := unix.Mmap(-1, 0, 720<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
		for i := 0; err == nil && i < len(data); i += 4096 {
			data[i] = 1
		}
		return r.linger()
	},
	"prints without end": func() error {
		r, run, call := ready()
		for range 100_000 {
			fmt.Println(strings.Repeat("x", 100))
		}
		r.response(call, 1, 1, 0, 4)
		r.frame(backend.KindDone, run)
		return r.linger()
	},
	"logs without end": func() error {
		r, run, call := ready()
		for range 100_000 {
			r.frame(backend.KindLog, byte(1), uint32(4), "text")
		}
		r.response(call, 1, 1, 0, 4)
		r.frame(backend.KindDone, run)
		return r.linger()
	},
}

func (r *raw) nonsense() error {
	_, _ = r.socket.WriteString("HTTP/1.1 400 Bad Request\r\n\r\n")
	return r.linger()
}

// forever reads what comes and obeys nothing.
func (r *raw) forever() {
	for {
		if k, _ := r.read(); k == backend.KindStop {
			time.Sleep(time.Hour)
		}
	}
}

// faultCases say what comes of each fault: an error of the load, or of a request.
var faultCases = []struct {
	do   string
	load string // in the error of the load; "": it loads
	run  string // in the error of the first request; "": it is answered
	kept bool   // the process goes on
	set  func(*Manifest)
}{
	{do: "says nothing", load: "its load was ended: context deadline exceeded", set: hasty},
	{do: "says nonsense", load: "(killed: the protocol is broken: a frame of"},
	{do: "dies at the start", load: "died (exit status 3) while loading: SyntaxError: model.py line 7"},
	{do: "dies while loading", load: "died (signal: killed) while loading"},
	{do: "refuses its model", load: "the file is no model"},
	{do: "says READY twice", run: "READY came twice"},
	{do: "dies in a run", run: "died (exit status 5)"},
	{do: "closes its socket", run: "died (killed: it closed its socket and went on)"},
	{do: "lies about the size", run: "takes 4 elements of 4 bytes, got 4 bytes"},
	{do: "points behind its memory", run: "are not within the memory of"},
	{do: "points before its memory", run: "are not within the memory of"},
	{do: "sends a block twice", run: "overlaps one that was not taken"},
	{do: "answers twice", run: ""},
	{do: "answers a call that there is not", run: "which is not open: it is unknown or was answered before"},
	{do: "says DONE twice", run: "which is not in progress"},
	{do: "sends a long frame", run: "a frame of 1048577 bytes"},
	{do: "sends a short frame", run: "it ends early"},
	{do: "sends without end", run: "more than 64 responses of a call that were not taken"},
	{do: "sends strings that are none", run: "string"},
	{do: "never answers", run: "context deadline exceeded", set: func(m *Manifest) { m.Grace = time.Millisecond }},
	{do: "writes the input", run: "refused: permission denied", kept: true},
	{do: "resizes the output", run: "refused: file too large", kept: true},
	{do: "writes past its memory", run: "died (exit status 2)"}, // Go says so of a bus error
	{do: "forks", run: "operation not permitted", kept: true},
	{do: "leaves", run: "refused: operation not permitted", kept: true},
	{do: "opens sockets", run: "refused: operation not permitted", kept: true},
	{do: "signals", run: "refused: operation not permitted", kept: true},
	{do: "reads files", run: "refused: open /etc/passwd: permission denied", kept: true},
	{do: "writes files", run: "refused: open /dev/shm/edgewise-test: permission denied", kept: true},
	{do: "fills the disk", run: "bytes of disk, and may take 1048576", set: scratch},
	{do: "writes a long file", run: "refused: write", kept: true, set: scratch},
	{do: "eats memory", run: "died (exit status", set: func(m *Manifest) { m.Memory = 1 << 30 }},
	{do: "shares memory", run: "bytes of memory, and may take 671088640", set: small},
	{do: "prints without end", kept: true},
	{do: "logs without end", kept: true},
}

func hasty(m *Manifest)   { m.LoadTimeout = 200 * time.Millisecond }
func small(m *Manifest)   { m.Memory, m.Input, m.Output = 640<<20, 1<<20, 1<<20 }
func scratch(m *Manifest) { m.Scratch = 1 << 20 }

// TestAFaultCostsItsModelAlone has a backend misbehave while another one answers.
func TestAFaultCostsItsModelAlone(t *testing.T) {
	good, _ := config(t, manifest(t, "reference"))
	other := load(t, good, version(false, 1))
	for _, test := range faultCases {
		t.Run(test.do, func(t *testing.T) {
			began, m := time.Now(), manifest(t, test.do)
			if test.set != nil {
				test.set(m)
			}
			c, log := config(t, m)
			v := version(strings.Contains(test.do, "without end") || strings.Contains(test.do, "block twice"), 1)
			loaded, err := New(c).Load(t.Context(), v, t.TempDir(), edgewise.Device{})
			if test.load != "" {
				if err == nil || !strings.Contains(err.Error(), test.load) {
					t.Fatalf("got %v, want %q", err, test.load)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			i := loaded.(*Instance)
			got := misbehave(t, i, other)
			if test.run == "" && got != nil || test.run != "" && (got == nil || !strings.Contains(got.Error(), test.run)) {
				t.Errorf("got %v, want %q", got, test.run)
			}
			if !test.kept {
				eventually(t, "the end of the process", func() bool {
					p, _ := i.Process()
					return p.Crashes > 0
				})
			} else if p, _ := i.Process(); p.Crashes != 0 {
				t.Errorf("the process has died: %+v", p)
			}
			if err := i.Close(); err != nil {
				t.Error(err)
			}
			most := logBurst * (2 + int(time.Since(began)/logPeriod))
			if n := strings.Count(log.String(), "\n"); n > most {
				t.Errorf("%d lines in the log", n)
			}
		})
	}
}

// misbehave sends a request to the one that misbehaves, and others to another one until that has ended. It returns the
// error of the first, also of one that has no process by then.
func misbehave(t *testing.T, i, other *Instance) error {
	t.Helper()
	a := ask(t, nil)
	if i.manifest.Grace == time.Millisecond {
		time.AfterFunc(10*time.Millisecond, a.cancel)
	}
	answered := make(chan error, 1)
	go func() {
		if err := i.Answer(a.Context, []*edgewise.Call{a.Call}); err != nil {
			answered <- err
			return
		}
		for {
			got := <-a.answers
			if got.last {
				answered <- got.err
				return
			}
		}
	}()
	for {
		if got := send(t, other, ask(t, nil)); got.err != nil {
			t.Fatalf("the other model: %v", got.err)
		}
		select {
		case err := <-answered:
			if errors.Is(err, a.Context.Err()) && err != nil {
				return errors.New("context deadline exceeded")
			}
			return err
		default:
		}
	}
}

// TestAProcessThatDoesNotStopIsEnded closes the instance of one.
func TestAProcessThatDoesNotStopIsEnded(t *testing.T) {
	c, _ := config(t, manifest(t, "does not stop"))
	i, err := New(c).Load(t.Context(), version(false, 1), t.TempDir(), edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := i.(*Instance).Process()
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID, 0); err == nil {
		t.Error("the process is still there")
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: did not come within a minute", what)
		}
	}
}
