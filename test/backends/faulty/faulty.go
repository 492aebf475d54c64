// Package faulty has backends that misbehave, each in one way. They are built into test programs and benchmarks only.
package faulty

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/backend"
)

var errUnknown = errors.New("there is no such fault")

// Run is the life of a backend that misbehaves in the named way.
func Run(name string) error {
	fault, ok := faults[name]
	if !ok {
		return errUnknown
	}
	return fault()
}

// Names are those of all faults.
func Names() []string { return slices.Sorted(maps.Keys(faults)) }

// Keys are those of backend.yaml that a fault needs.
func Keys(name string) string {
	switch name {
	case "says nothing":
		return "load_timeout: 200ms\n"
	case "never answers":
		return "grace: 1ms\n"
	case "fills the disk", "writes a long file":
		return "scratch: 1MiB\n"
	case "eats memory":
		return "memory: 1GiB\n"
	case "shares memory":
		return "memory: 640MiB\ninput_memory: 1MiB\noutput_memory: 1MiB\n"
	}
	return ""
}

// Decoupled tells whether the model of a fault sends more than one response.
func Decoupled(name string) bool {
	return strings.HasSuffix(name, "without end") || name == "sends a block twice" || name == "dies in a stream"
}

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
			return batch(body)
		}
	}
}

// answer is the one response to a call, and the end of its run.
func (r *raw) answer(run, call uint64) {
	r.response(call, 1, 16, 0, 64)
	r.frame(backend.KindDone, run)
}

// serve answers what comes until it is told to end.
func (r *raw) serve() error {
	for {
		switch k, body := r.read(); k {
		case backend.KindStop:
			return nil
		case backend.KindRun:
			r.answer(batch(body))
		}
	}
}

// batch returns the run and the first call of a RUN.
func batch(body []byte) (run, call uint64) {
	return binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8+1+2:])
}

// linger waits for the end of the connection.
func (r *raw) linger() error {
	for {
		if k, _ := r.read(); k == backend.KindStop {
			return nil
		}
	}
}

// beside does something while what comes is read, so that a PING is answered however busy the machine is.
func (r *raw) beside(do func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- r.linger() }()
	if err := do(); err != nil {
		return err
	}
	return <-ended
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
	"dies between runs": func() error { r, run, call := ready(); r.answer(run, call); os.Exit(6); return nil },
	"dies in a stream": func() error {
		r, _, call := ready()
		r.response(call, 0, 16, 0, 64)
		os.Exit(7)
		return nil
	},
	"dies at the stop": func() error { _ = started().serve(); return unix.Kill(unix.Getpid(), unix.SIGKILL) },
	"answers late": func() error {
		r, run, call := ready()
		for k := backend.Kind(0); k != backend.KindCancel; {
			k, _ = r.read()
		}
		r.answer(run, call)
		return r.serve()
	},
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
		var memory unix.Stat_t
		err := unix.Fstat(backend.OutputFD, &memory)
		if err == nil {
			var data []byte
			if data, err = unix.Mmap(backend.OutputFD, memory.Size, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
				data[0] = 1
			}
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
		return started().beside(func() error {
			data, err := unix.Mmap(-1, 0, 720<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
			for i := 0; err == nil && i < len(data); i += 4096 {
				data[i] = 1
			}
			return err
		})
	},
	"prints without end": func() error {
		r, run, call := ready()
		return r.beside(func() error {
			for range 100_000 {
				fmt.Println(strings.Repeat("x", 100))
			}
			r.response(call, 1, 1, 0, 4)
			r.frame(backend.KindDone, run)
			return nil
		})
	},
	"logs without end": func() error {
		r, run, call := ready()
		return r.beside(func() error {
			for range 100_000 {
				r.frame(backend.KindLog, byte(1), uint32(4), "text")
			}
			r.response(call, 1, 1, 0, 4)
			r.frame(backend.KindDone, run)
			return nil
		})
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
