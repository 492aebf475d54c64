package e2e

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestServiceManagerIsTold plays the service manager: it listens where NOTIFY_SOCKET points.
func TestServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	b := serveWith(t, []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=300000"}, t.TempDir())
	wantState(t, socket, "READY=1")
	begun := time.Now()
	for range 10 {
		wantState(t, socket, "WATCHDOG=1")
	}
	if took := time.Since(begun); took < 400*time.Millisecond { // some may have waited for this test, where the machine is busy
		t.Errorf("ten signs of life within %v: want one every 100 ms", took)
	}
	b.terminate()
	wantState(t, socket, "STOPPING=1")
	if code := b.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// wantState reads until a state arrives; in between there may be signs of life.
func wantState(t *testing.T, socket *net.UnixConn, want string) {
	t.Helper()
	if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for {
		message := make([]byte, 256)
		n, err := socket.Read(message)
		if err != nil {
			t.Fatalf("waiting for %s: %v", want, err)
		}
		switch state := string(message[:n]); state {
		case want:
			return
		case "WATCHDOG=1":
		default:
			t.Fatalf("the service manager was told %q, want %q", state, want)
		}
	}
}
