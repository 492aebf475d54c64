package fault

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/client"
	"github.com/edgewise-ai/edgewise/test/journal"
	"github.com/edgewise-ai/edgewise/test/real"
)

// box is the built program, serving a data folder.
type box struct {
	cmd    *exec.Cmd
	url    string
	client *client.Client
	ended  chan struct{} // closed when it has ended
	output journal.Journal
}

// startBox starts the program with settings, as key=value, and waits until it is ready.
func startBox(t *testing.T, dir string, settings ...string) *box {
	t.Helper()
	b, ready := launchBox(t, dir, settings...)
	b.awaitReady(t, ready)
	return b
}

// launchBox starts the program; ready gets its address once it is ready.
func launchBox(t *testing.T, dir string, settings ...string) (b *box, ready <-chan string) {
	t.Helper()
	b = &box{ended: make(chan struct{})}
	b.cmd = exec.Command(real.Program(t), "serve", "--set", "metrics.address=", "--set", "http.address=127.0.0.1:0",
		"--set", "grpc.address=127.0.0.1:0", "--set", "data_dir="+dir, "--set", "store.reserve_bytes=0", "--auth", "open")
	for _, s := range settings {
		b.cmd.Args = append(b.cmd.Args, "--set", s)
	}
	b.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.cmd.Stderr = &b.output
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.kill)
	told := make(chan string, 1)
	go func() {
		url := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, address, ok := strings.Cut(lines.Text(), " listens on "); ok {
				url = address
			}
			if lines.Text() == "ready" {
				told <- url
			}
		}
		_ = b.cmd.Wait()
		close(b.ended)
	}()
	return b, told
}

func (b *box) awaitReady(t *testing.T, ready <-chan string) {
	t.Helper()
	var err error
	select {
	case b.url = <-ready:
		if b.client, err = client.New(b.url); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.client.Close)
	case <-b.ended:
		t.Fatalf("the box ended:\n%s", b.output.String())
	case <-time.After(10 * time.Minute):
		t.Fatalf("the box does not get ready:\n%s", b.output.String())
	}
}

// kill ends the box as a loss of power does.
func (b *box) kill() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}
