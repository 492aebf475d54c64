package external

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/test/backends/faulty"
)

// faultCases say what comes of each fault: an error of the load, or of a request.
var faultCases = []struct {
	do   string
	load string // in the error of the load; "": it loads
	run  string // in the error of the first request; "": it is answered
	kept bool   // the process goes on
	// the client of the first request leaves; where the process goes on, it answers the next one
	left bool
}{
	{do: "says nothing", load: "its load was ended: context deadline exceeded"},
	{do: "says nonsense", load: "(killed: the protocol is broken: a frame of"},
	{do: "dies at the start", load: "died (exit status 3) while loading: SyntaxError: model.py line 7"},
	{do: "dies while loading", load: "died (signal: killed) while loading"},
	{do: "refuses its model", load: "the file is no model"},
	{do: "says READY twice", run: "READY came twice"},
	{do: "dies in a run", run: "died (exit status 5)"},
	{do: "dies between runs", run: ""},
	{do: "dies in a stream", run: "died (exit status 7)"},
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
	{do: "never answers", run: "context canceled", left: true},
	{do: "answers late", run: "context canceled", left: true, kept: true},
	{do: "writes the input", run: "refused: permission denied", kept: true},
	{do: "resizes the output", run: "refused: file too large", kept: true},
	{do: "writes past its memory", run: "died (exit status 2)"}, // Go says so of a bus error
	{do: "forks", run: "operation not permitted", kept: true},
	{do: "leaves", run: "refused: operation not permitted", kept: true},
	{do: "opens sockets", run: "refused: operation not permitted", kept: true},
	{do: "signals", run: "refused: operation not permitted", kept: true},
	{do: "reads files", run: "refused: open /etc/passwd: permission denied", kept: true},
	{do: "writes files", run: "refused: open /dev/shm/edgewise-test: permission denied", kept: true},
	{do: "fills the disk", run: "bytes of disk, and may take 1048576"},
	{do: "writes a long file", run: "refused: write", kept: true},
	{do: "eats memory", run: "its process died ("}, // by itself, or slower than farewell allows
	{do: "shares memory", run: "bytes of memory, and may take 671088640"},
	{do: "prints without end", kept: true},
	{do: "logs without end", kept: true},
}

// TestAFaultCostsItsModelAlone has a backend misbehave while another one answers.
func TestAFaultCostsItsModelAlone(t *testing.T) {
	good, _ := config(t, manifest(t, "reference"))
	other := load(t, good, version(false, 1))
	for _, test := range faultCases {
		t.Run(test.do, func(t *testing.T) {
			began := time.Now()
			c, log := config(t, manifest(t, test.do))
			v := version(faulty.Decoupled(test.do), 1)
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
			got := misbehave(t, i, other, test.left)
			if test.run == "" && got != nil || test.run != "" && (got == nil || !strings.Contains(got.Error(), test.run)) {
				t.Errorf("got %v, want %q", got, test.run)
			}
			if test.kept && test.left {
				if got := send(t, i, ask(t, nil)); got.err != nil {
					t.Errorf("the next request: %v", got.err)
				}
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
// error of the first, also of one that has no process by then. left: its client does not wait for it. The outputs of its
// responses are freed after the last one: some faults are only faults while outputs are still in use.
func misbehave(t *testing.T, i, other *Instance, left bool) error {
	t.Helper()
	a := ask(t, nil)
	a.keeps = true
	if left {
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
			if got.free != nil {
				defer got.free()
			}
			if got.last {
				answered <- got.err
				return
			}
		}
	}()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if got := send(t, other, ask(t, nil)); got.err != nil {
			t.Fatalf("the other model: %v", got.err)
		}
		select {
		case err := <-answered:
			return err
		default:
		}
	}
	t.Fatal("the request had no last answer within a minute")
	return nil
}

// TestAProcessThatDoesNotStopIsEnded closes the instance of one, and of one that dies when it is told to stop.
func TestAProcessThatDoesNotStopIsEnded(t *testing.T) {
	for _, do := range []string{"does not stop", "dies at the stop"} {
		t.Run(do, func(t *testing.T) {
			c, _ := config(t, manifest(t, do))
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
		})
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
