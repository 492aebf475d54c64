package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// pipe returns both ends, which are closed when the test ends.
func pipe(t *testing.T) (from, to *os.File) {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = from.Close()
		_ = to.Close()
	})
	return from, to
}

func TestAStreamReadsAndWritesItsFile(t *testing.T) {
	from, to := pipe(t)
	text := strings.Repeat("one line\n", 100_000)
	go func() {
		_, _ = io.Copy(Stream{t.Context(), to}, strings.NewReader(text))
		_ = to.Close()
	}()
	got, err := io.ReadAll(Stream{t.Context(), from})
	if err != nil || string(got) != text {
		t.Errorf("%d bytes of %d have arrived: %v", len(got), len(text), err)
	}
	_ = from.Close()
	if _, err := (Stream{t.Context(), from}).Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a read of a closed file: %v", err)
	}
}

func TestAStreamEndsWithItsContext(t *testing.T) {
	from, _ := pipe(t)
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan error)
	go func() {
		_, err := Stream{ctx, from}.Read(make([]byte, 1))
		read <- err
	}()
	cancel()
	if err := <-read; !errors.Is(err, context.Canceled) {
		t.Errorf("a read that nobody answers: %v", err)
	}

	from, to := pipe(t)
	if n, err := (Stream{ctx, to}).Write([]byte("the end")); n != 7 || err != nil {
		t.Errorf("the last words: %d bytes, %v", n, err)
	}
	if _, err := (Stream{ctx, to}).Write(make([]byte, 1<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("a write that nobody reads: %v", err)
	}
	last := make([]byte, 7)
	if _, err := io.ReadFull(from, last); err != nil || string(last) != "the end" {
		t.Errorf("got %q, %v", last, err)
	}
}
