package fakesystem

import (
	"context"
	"net"
	"testing"
	"time"
)

// Serve has a service answer at a Unix socket until the test ends, without going away when nobody asks.
func Serve(t testing.TB, path string, serve func(ctx context.Context, l *net.UnixListener, linger time.Duration) error) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, 0) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
