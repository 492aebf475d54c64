// Package e2e drives the built program as a user does: the real binary, real models, real files.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/test/real"
)

// startLimit bounds how long a box may take to get ready, on a machine under the race detector's load.
const startLimit = 2 * time.Minute

// box is a running program.
type box struct {
	t       *testing.T
	cmd     *exec.Cmd
	url     string
	client  *client.Client
	ready   chan struct{}
	exited  chan error
	mu      sync.Mutex // guards logged
	logged  bytes.Buffer
	dataDir string
}

// serve starts a box on a data folder; more arguments follow "serve".
func serve(t *testing.T, dataDir string, arguments ...string) *box {
	t.Helper()
	b := &box{t: t, ready: make(chan struct{}), exited: make(chan error, 1), dataDir: dataDir}
	base := []string{"serve", "--set", "http.address=127.0.0.1:0", "--set", "data_dir=" + dataDir, "--set", "store.reserve_bytes=0"}
	b.cmd = exec.Command(real.Program(t), append(base, arguments...)...)
	b.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	b.cmd.Stderr = writerFunc(b.log)
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan string, 1)
	go b.follow(out, listening)
	t.Cleanup(b.kill)
	select {
	case b.url = <-listening:
	case <-time.After(startLimit):
		t.Fatalf("the box does not listen:\n%s", b.output())
	case err := <-b.exited:
		t.Fatalf("the box exited: %v\n%s", err, b.output())
	}
	if b.client, err = client.New(b.url); err != nil {
		t.Fatal(err)
	}
	return b
}

// serveReady starts a box and waits until it is ready.
func serveReady(t *testing.T, dataDir string, arguments ...string) *box {
	t.Helper()
	b := serve(t, dataDir, arguments...)
	select {
	case <-b.ready:
	case <-time.After(startLimit):
		t.Fatalf("the box does not get ready:\n%s", b.output())
	}
	return b
}

// follow reads what the program prints until it ends.
func (b *box) follow(out io.Reader, listening chan<- string) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		b.log([]byte(lines.Text() + "\n"))
		if _, address, ok := strings.Cut(lines.Text(), " listens on "); ok {
			listening <- address
		}
		if lines.Text() == "ready" {
			close(b.ready)
		}
	}
	b.exited <- b.cmd.Wait()
}

type writerFunc func(p []byte)

// Write hands p over.
func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func (b *box) log(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.logged.Write(p)
}

func (b *box) output() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logged.String()
}

// stop ends the box as systemd does and returns its error.
func (b *box) stop() error {
	b.t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	return b.wait()
}

func (b *box) wait() error {
	b.t.Helper()
	select {
	case err := <-b.exited:
		b.exited <- err
		return err
	case <-time.After(startLimit):
		b.t.Fatalf("the box does not end:\n%s", b.output())
		return nil
	}
}

// kill ends the box as a power cut does.
func (b *box) kill() {
	_ = b.cmd.Process.Kill()
	err := <-b.exited
	b.exited <- err
}

// run runs a command of the program against the box and returns what it printed and its exit code.
func (b *box) run(arguments ...string) (stdout, stderr string, code int) {
	b.t.Helper()
	return run(b.t, append([]string{"--server", b.url}, arguments...)...)
}

func run(t *testing.T, arguments ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, real.Program(t), arguments...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
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

// post sends a body and returns status and answer.
func (b *box) post(path, contentType string, body []byte) (int, string) {
	b.t.Helper()
	res, err := http.Post(b.url+path, contentType, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// get returns status and answer.
func (b *box) get(path string) (int, string) {
	b.t.Helper()
	res, err := http.Get(b.url + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// write writes a file into a new folder and returns its path.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func sample(t *testing.T, name string) string { return filepath.Join(real.Samples(t), name) }

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

func sprint(values ...any) string { return fmt.Sprint(values...) }
