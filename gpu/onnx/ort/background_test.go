package ort

import (
	"errors"
	"runtime"
	"testing"
	"time"

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

// class is the scheduling class of a thread.
func class(t *testing.T, thread int) uint32 {
	t.Helper()
	attributes, err := unix.SchedGetAttr(thread, 0)
	if err != nil {
		t.Fatal(err)
	}
	return attributes.Policy
}

func TestLoadsGiveWayAndLeaveNoThreadBehindThatDoes(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for name, m := range map[string]manner{
		"beside what serves": {}, "alone in a process": {idle: later}, "alone, late": {idle: time.Now()},
		"again, after a crash": {idle: later, missed: true},
	} {
		t.Run(name, func(t *testing.T) { loadGivesWay(t, m) })
	}
}

// TestALoadIsNotIdleForLong has a load go on until it may use a core that has something else to do.
func TestALoadIsNotIdleForLong(t *testing.T) {
	allowed := mayYield()
	if err := onIdleThread(func() error {
		for allowed && class(t, unix.Gettid()) == unix.SCHED_IDLE {
			runtime.Gosched()
		}
		if now := niceness(t); now != loadNice {
			t.Errorf("niceness %d after that", now)
		}
		return nil
	}, time.Millisecond); err != nil {
		t.Fatal(err)
	}
}

func loadGivesWay(t *testing.T, m manner) {
	before := niceness(t)
	var during, thread int
	var among uint32
	want := errors.New("what f returns")
	if err := background(func() error {
		during, thread = niceness(t), unix.Gettid()
		among = class(t, thread)
		return want
	}, m); !errors.Is(err, want) {
		t.Fatalf("the error is %v", err)
	}
	idle := m.idle.After(time.Now()) && !m.missed && mayYield()
	if give := map[bool]uint32{true: unix.SCHED_IDLE, false: unix.SCHED_NORMAL}[idle]; among != give {
		t.Errorf("class %d while loading, want %d", among, give)
	}
	if give := map[bool]int{true: loadNice, false: before}[!m.missed && mayYield()]; during != give {
		t.Errorf("niceness %d while loading, want %d", during, give)
	}
	if now := niceness(t); now != before || unix.Gettid() == thread {
		t.Errorf("niceness %d afterwards on thread %d, loaded on %d", now, unix.Gettid(), thread)
	}
	if now := class(t, unix.Gettid()); now != unix.SCHED_NORMAL {
		t.Errorf("class %d afterwards", now)
	}
}
