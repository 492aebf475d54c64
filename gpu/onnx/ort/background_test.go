package ort

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// niceness of the calling thread.
func niceness(t *testing.T) int {
	t.Helper()
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()) // the system call returns 20 minus it
	if err != nil {
		t.Fatal(err)
	}
	return 20 - raw
}

func TestLoadsGiveWayAndLeaveNoThreadBehindThatDoes(t *testing.T) {
	before := niceness(t)
	var during, thread int
	want := errors.New("what f returns")
	if err := background(func() error {
		during, thread = niceness(t), unix.Gettid()
		return want
	}); !errors.Is(err, want) {
		t.Fatalf("the error is %v", err)
	}
	if give := map[bool]int{true: loadNice, false: before}[mayYield()]; during != give {
		t.Errorf("niceness %d while loading, want %d", during, give)
	}
	if now := niceness(t); now != before || unix.Gettid() == thread {
		t.Errorf("niceness %d afterwards on thread %d, loaded on %d", now, unix.Gettid(), thread)
	}
}
