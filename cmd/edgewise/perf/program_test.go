package perf_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/cmd/edgewise/perf"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
	"github.com/edgewise-ai/edgewise/test/real"
)

// program is the built program and a box that it serves.
type program struct {
	path, url string
}

// command returns the program with arguments, for the box.
func (p program) command(t *testing.T, arguments ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), p.path, append([]string{"--server", p.url}, arguments...)...)
}

// run runs the program to its end.
func (p program) run(t *testing.T, arguments ...string) (out, errors string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := p.command(t, arguments...)
	c.Stdout, c.Stderr = &stdout, &stderr
	_ = c.Run()
	return stdout.String(), stderr.String(), c.ProcessState.ExitCode()
}

// serve starts a box and waits until it is ready.
func (p *program) serve(t *testing.T) {
	t.Helper()
	c := exec.Command(p.path, "serve", "--set", "metrics.address=", "--set", "http.address=127.0.0.1:0", "--set",
		"grpc.address=127.0.0.1:0", "--set", "data_dir="+t.TempDir(),
		"--auth", "open", "--set", "store.reserve_bytes=0", "--set", "onnx.library="+real.Library(t))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), " listens on "); ok {
			p.url = url
		}
		if lines.Text() == "ready" {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	t.Fatal("the box does not get ready")
}

func (p program) push(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mlp.onnx")
	if err := os.WriteFile(file, onnxgen.MLP(1).Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errors, code := p.run(t, "model", "push", "mlp", file); code != 0 {
		t.Fatalf("push: exit code %d\n%s%s", code, out, errors)
	}
}

type report struct {
	Model, Form string
	Batch       int
	Steps       []perf.Step
}

// short are flags that make a measurement quick.
func Short(more ...string) []string {
	return append([]string{"perf", "mlp", "--warmup", "100ms", "--window", "150ms", "--max-windows", "3", "-o", "json"}, more...)
}

func (p program) measure(t *testing.T, flags ...string) report {
	t.Helper()
	out, errors, code := p.run(t, Short(flags...)...)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("%v: exit code %d, %v\n%s%s", flags, code, err, out, errors)
	}
	for _, s := range r.Steps {
		if s.Requests == 0 || s.Failed > 0 || s.Latency.P50 <= 0 || s.Latency.P50 > s.Latency.Max || s.Server == nil ||
			s.Server.ComputeInfer <= 0 {
			t.Errorf("%v: step %+v", flags, s)
		}
	}
	return r
}

func TestProgram(t *testing.T) {
	p := program{path: real.Program(t), url: "http://127.0.0.1:1"}
	t.Run("wrong flags", p.wrongFlags)
	p.serve(t)
	p.push(t)
	t.Run("concurrency", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "out.csv")
		r := p.measure(t, "--concurrency", "1:4:2x", "--csv", file)
		if len(r.Steps) != 3 || r.Steps[2].Concurrency != 4 || r.Form != "binary" || r.Batch != 1 {
			t.Errorf("got %+v", r)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if records, err := csv.NewReader(bytes.NewReader(data)).ReadAll(); err != nil || len(records) != 4 {
			t.Errorf("%d records, %v", len(records), err)
		}
	})
	t.Run("rate", func(t *testing.T) {
		r := p.measure(t, "--rate", "200", "--arrivals", "constant")
		if s := r.Steps[0]; s.Throughput < 120 || s.Throughput > 280 {
			t.Errorf("%v requests a second", s.Throughput)
		}
	})
	t.Run("batch as json", func(t *testing.T) {
		r := p.measure(t, "--json", "--batch", "4")
		if s := r.Steps[0]; r.Form != "json" || r.Batch != 4 || s.Inferences < 3.9*s.Throughput || s.Server.Batch < 3.9 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("input from a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "x.bin")
		if err := os.WriteFile(file, make([]byte, 4*64), 0o600); err != nil {
			t.Fatal(err)
		}
		p.measure(t, "--input", "input="+file)
	})
	t.Run("interrupt", p.interrupt)
	t.Run("unknown model", func(t *testing.T) {
		if _, errors, code := p.run(t, "perf", "nobody"); code != 3 {
			t.Errorf("exit code %d: %s", code, errors)
		}
	})
	t.Run("wrong shape", func(t *testing.T) {
		if _, errors, code := p.run(t, "perf", "mlp", "--shape", "input:1,65"); code != 2 || !strings.Contains(errors, "takes [-1,64]") {
			t.Errorf("exit code %d: %s", code, errors)
		}
	})
}

// interrupt sends SIGINT in the second of three steps.
func (p program) interrupt(t *testing.T) {
	c := p.command(t, "perf", "mlp", "--concurrency", "1,2,3", "--warmup", "100ms", "--window", "1s", "--max-windows", "3", "--chart")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "c=1 ") && strings.Count(text.String(), "c=") == 1 {
			time.AfterFunc(200*time.Millisecond, func() { _ = c.Process.Signal(syscall.SIGINT) })
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	if got := text.String(); !strings.Contains(got, "interrupted") || !strings.Contains(got, "OUTSIDE") ||
		!strings.Contains(got, "requests/s") || strings.Contains(got, "c=3") {
		t.Errorf("got %s", got)
	}
}

// wrongFlags checks that every bound is a usage error, before any server is asked.
func (p program) wrongFlags(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"two loads", []string{"--rate", "1", "--concurrency", "1"}, "give one of them"},
		{"concurrency too high", []string{"--concurrency", "4097"}, "1 to 4096"},
		{"rate too high", []string{"--rate", "1e7"}, "0.01 to 1000000"},
		{"arrivals", []string{"--arrivals", "never"}, "poisson or constant"},
		{"data", []string{"--data", "real"}, "zero or random"},
		{"batch", []string{"--batch", "0"}, "1 to 65536"},
		{"window", []string{"--window", "1ms"}, "100ms to 10m0s"},
		{"windows", []string{"--max-windows", "2"}, "3 to 1000"},
		{"warm-up", []string{"--warmup", "1h"}, "0 to 10m0s"},
		{"stability", []string{"--stability", "0"}, "above 0"},
		{"timeout", []string{"--timeout", "0"}, "1ms to 10m0s"},
		{"connections", []string{"--max-connections", "5000"}, "1 to 4096"},
		{"shape", []string{"--shape", "x"}, "--shape"},
		{"unknown flag", []string{"--faster"}, "unknown flag"},
	} {
		if _, errors, code := p.run(t, append([]string{"perf", "m"}, c.flags...)...); code != 2 || !strings.Contains(errors, c.want) {
			t.Errorf("%s: exit code %d, %q; want 2 and %q", c.name, code, errors, c.want)
		}
	}
	if _, errors, code := p.run(t, "perf"); code != 2 {
		t.Errorf("no model: exit code %d, %s", code, errors)
	}
	if _, errors, code := p.run(t, "perf", "m"); code != 5 {
		t.Errorf("no server: exit code %d, %s", code, errors)
	}
}
