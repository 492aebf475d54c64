// Package e2e drives the built program as a user does: the real binary, real models, real files.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/test/journal"
	"github.com/edgewise-ai/edgewise/test/real"
)

// patience bounds how long a box or a command may take: it ends what hangs, and what a busy machine makes slow has time.
const patience = 10 * time.Minute

// maxLine bounds a line that a box prints or logs.
const maxLine = 1 << 20

// box is a running program.
type box struct {
	t        *testing.T
	cmd      *exec.Cmd
	address  string // host:port
	grpc     string // host:port of the gRPC server
	metrics  string // host:port of the metrics page's own server
	url      string
	client   *client.Client
	ready    chan struct{}
	finished chan struct{} // closed when the program has ended
	ended    error         // why, once finished is closed
	logged   journal.Journal
}

// serve starts a box on a data folder and waits until it listens; more arguments follow "serve".
func serve(t *testing.T, dataDir string, arguments ...string) *box {
	t.Helper()
	return serveWith(t, nil, dataDir, arguments...)
}

// serveReady starts a box and waits until it is ready.
func serveReady(t *testing.T, dataDir string, arguments ...string) *box {
	t.Helper()
	b := serve(t, dataDir, arguments...)
	b.awaitReady()
	return b
}

// serveWith is serve with more variables in the environment.
func serveWith(t *testing.T, environment []string, dataDir string, arguments ...string) *box {
	t.Helper()
	return serveAs(t, environment, append(ownArguments(dataDir), arguments...))
}

// ownArguments are those of a box that meets no other one.
func ownArguments(dataDir string) []string {
	return []string{
		"--set", "metrics.address=", "--set", "http.address=127.0.0.1:0", "--set", "grpc.address=127.0.0.1:0", "--set", "data_dir=" + dataDir,
		"--set", "store.reserve_bytes=0", "--auth", "open",
	}
}

func newBox(t *testing.T) *box {
	return &box{t: t, ready: make(chan struct{}), finished: make(chan struct{})}
}

// serveAs starts a box with exactly these arguments.
func serveAs(t *testing.T, environment, arguments []string) *box {
	t.Helper()
	b := newBox(t)
	b.cmd = exec.Command(real.Program(t), append([]string{"serve"}, arguments...)...)
	b.start(environment)
	return b
}

// serveWrapped is serve for a box that another program starts, such as a shell that sets limits first.
func serveWrapped(t *testing.T, wrapper []string, dataDir string, arguments ...string) *box {
	t.Helper()
	b := newBox(t)
	all := append(append(slices.Clone(wrapper), real.Program(t), "serve"), append(ownArguments(dataDir), arguments...)...)
	b.cmd = exec.Command(all[0], all[1:]...)
	b.start(nil)
	return b
}

// start starts the program and waits until it listens.
func (b *box) start(environment []string) {
	t := b.t
	t.Helper()
	b.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environment...)
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.cmd.Stderr = b.cmd.Stdout // one pipe: what was logged before "ready" is there when "ready" is
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	go b.follow(out, listening)
	t.Cleanup(b.kill)
	b.bound()
	select {
	case b.url = <-listening:
	case <-time.After(patience):
		t.Fatalf("the box does not listen:\n%s", b.output())
	case <-b.finished:
		t.Fatalf("the box exited: %v\n%s", b.ended, b.output())
	}
	b.address = strings.TrimPrefix(b.url, "http://")
	if b.client, err = client.New(b.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.client.Close)
}

// bound ends the box after half of the time that is left to all tests. The box then says what each of its goroutines does. A
// request that would wait for ever fails with the end of the box, and the tests that follow still have time.
func (b *box) bound() {
	end, ok := b.t.Deadline()
	if !ok {
		return
	}
	most, said := time.Until(end)/2, make(chan struct{})
	late := time.AfterFunc(most, func() {
		defer close(said)
		b.t.Errorf("the box is ended after %v, half of the time that was left", most)
		_ = b.cmd.Process.Signal(syscall.SIGQUIT)
		<-b.finished
		b.t.Log(b.output())
	})
	b.t.Cleanup(func() {
		if !late.Stop() {
			<-said
		}
	})
}

func (b *box) awaitReady() {
	b.t.Helper()
	b.awaitWithin(patience)
}

// awaitWithin waits until a box is ready whose models take long to load.
func (b *box) awaitWithin(most time.Duration) {
	b.t.Helper()
	select {
	case <-b.ready:
	case <-b.finished:
		b.t.Fatalf("the box exited: %v\n%s", b.ended, b.output())
	case <-time.After(most):
		b.t.Fatalf("the box does not get ready:\n%s", b.output())
	}
}

// follow reads what the program prints until it ends.
func (b *box) follow(out io.Reader, listening chan<- string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		_, _ = io.WriteString(&b.logged, lines.Text()+"\n")
		if _, address, ok := strings.Cut(lines.Text(), " serves gRPC at "); ok {
			b.grpc = address // told before the other, which is waited for
		}
		if _, address, ok := strings.Cut(lines.Text(), " serves metrics at http://"); ok {
			b.metrics = strings.TrimSuffix(address, "/metrics")
		}
		if _, address, ok := strings.Cut(lines.Text(), " listens on "); ok {
			listening <- address
		}
		if lines.Text() == "ready" {
			close(b.ready)
		}
	}
	b.ended = b.cmd.Wait()
	close(b.finished)
}

// output returns what the box has printed and logged so far.
func (b *box) output() string { return b.logged.String() }

// raw connects to the box and sends text, whatever it is.
func (b *box) raw(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", b.address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// terminate asks the box to stop, as systemd does, and does not wait.
func (b *box) terminate() {
	b.t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
}

// stop ends the box in order; it fails the test unless the exit code is 0.
func (b *box) stop() {
	b.t.Helper()
	b.terminate()
	if code := b.exitCode(); code != 0 {
		b.t.Fatalf("stopping the box: exit code %d\n%s", code, b.output())
	}
}

// exitCode waits for the end of the box.
func (b *box) exitCode() int {
	b.t.Helper()
	select {
	case <-b.finished:
		return b.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		b.t.Fatalf("the box does not end:\n%s", b.output())
		return -1
	}
}

// kill ends the box as a power cut does.
func (b *box) kill() {
	_ = b.cmd.Process.Kill()
	<-b.finished
}

// run runs a command of the program against the box and returns what it printed and its exit code.
func (b *box) run(arguments ...string) (stdout, stderr string, code int) {
	b.t.Helper()
	return run(b.t, nil, append([]string{"--server", b.url}, arguments...)...)
}

// run runs the program with more variables in the environment.
func run(t *testing.T, environment []string, arguments ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, real.Program(t), arguments...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environment...)
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if failed := cmd.Run(); errors.As(failed, &exit) {
		code = exit.ExitCode()
	} else if failed != nil {
		t.Fatal(failed)
	}
	return out.String(), err.String(), code
}

// must runs a command that has to succeed and returns what it printed.
func (b *box) must(arguments ...string) string {
	b.t.Helper()
	out, stderr, code := b.run(arguments...)
	if code != 0 {
		b.t.Fatalf("edgewise %s: exit code %d: %s\nbox:\n%s", strings.Join(arguments, " "), code, stderr, b.output())
	}
	return out
}

// refuses runs a command that has to fail with an exit code and to say all parts on standard error.
func (b *box) refuses(code int, parts []string, arguments ...string) {
	b.t.Helper()
	refuses(b.t, code, parts, append([]string{"--server", b.url}, arguments...)...)
}

func refuses(t *testing.T, code int, parts []string, arguments ...string) {
	t.Helper()
	_, stderr, got := run(t, nil, arguments...)
	if got != code {
		t.Errorf("edgewise %.300q: exit code %d, want %d: %s", arguments, got, code, stderr)
	}
	contains(t, "standard error", stderr, parts...)
}
