package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// sides returns two views of one mailbox, as its two sides have them.
func sides(t *testing.T) (writer, reader *mailbox) {
	t.Helper()
	fd, ours, err := newShared(channelBytes)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := mapShared(fd, channelBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Munmap(ours)
		_ = unix.Munmap(theirs)
		_ = unix.Close(fd)
	})
	writer, _ = mailboxes(ours)
	reader, _ = mailboxes(theirs)
	return writer, reader
}

// sharedMappings counts what this process maps of memory that it shares with children.
func sharedMappings(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("memfd:edgewise"))
}

func TestFramesArriveInOrderHoweverTheReaderWaits(t *testing.T) {
	for _, test := range []struct {
		name     string
		pause    time.Duration // of the writer before each frame
		wakePipe func(*testing.T) *wakePipe
	}{
		{"asleep", 0, nil},
		{"asleep when it comes", time.Millisecond, nil},
		{"parked", 0, soundBell},
		{"parked when it comes", time.Millisecond, soundBell},
		{"a wakePipe that rings for nothing", time.Millisecond, shrillBell},
		{"a wakePipe that is not heard", time.Millisecond, muteBell},
	} {
		t.Run(test.name, func(t *testing.T) {
			writer, reader := sides(t)
			if test.wakePipe != nil {
				reader.wakePipe = test.wakePipe(t)
				writer.wakePipe = reader.wakePipe
			}
			taken := make(chan struct{})
			go func() {
				for n := range 300 {
					<-time.After(test.pause)
					writer.post(bytes.Repeat([]byte{byte(n)}, n+1))
					<-taken
				}
				writer.end()
				writer.wakePipe.wake() // the end of the child is heard, too
			}()
			buf := make([]byte, maxFrame)
			for n := range 300 {
				frame, err := reader.receive(buf, test.wakePipe != nil)
				if err != nil || !bytes.Equal(frame, bytes.Repeat([]byte{byte(n)}, n+1)) {
					t.Fatalf("frame %d is %d bytes of %v, %v", n, len(frame), frame[:1], err)
				}
				taken <- struct{}{}
			}
			if _, err := reader.receive(buf, test.wakePipe != nil); !errors.Is(err, io.EOF) {
				t.Errorf("after the end: %v", err)
			}
			if _, err := reader.receive(buf, test.wakePipe != nil); !errors.Is(err, io.EOF) {
				t.Errorf("long after the end: %v", err)
			}
		})
	}
}

func soundBell(t *testing.T) *wakePipe {
	b, err := newWakePipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.close()
		_ = unix.Close(b.fd)
	})
	return b
}

// shrillBell rings all the time, as a hostile child's would.
func shrillBell(t *testing.T) *wakePipe {
	b := soundBell(t)
	end := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				b.wake()
			}
		}
	})
	t.Cleanup(func() {
		close(end)
		group.Wait()
	})
	return b
}

func muteBell(t *testing.T) *wakePipe {
	deaf := soundBell(t)
	_ = deaf.file.Close()
	return &wakePipe{soundBell(t).fd, deaf.file}
}

// threadSleeps tells whether a thread of this process waits in the kernel.
func threadSleeps(t *testing.T, id int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", id))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(stat, []byte(") S "))
}

// TestAReaderIsWokenWhenWhoWasToWakeItDies has a writer that ends after it took the note that the reader sleeps, and
// before it woke it.
func TestAReaderIsWokenWhenWhoWasToWakeItDies(t *testing.T) {
	for name, park := range map[string]bool{"asleep": false, "parked": true} {
		t.Run(name, func(t *testing.T) {
			writer, reader := sides(t)
			b, err := newWakePipe()
			if err != nil {
				t.Fatal(err)
			}
			defer b.close()
			reader.wakePipe = b
			ended, thread := make(chan error), make(chan int, 1)
			go func() {
				runtime.LockOSThread() // the thread ends with the test
				thread <- unix.Gettid()
				_, err := reader.receive(make([]byte, maxFrame), park)
				ended <- err
			}()
			eventually(t, "a reader that sleeps", func() bool { return writer.asleep.Load() != awake })
			id := <-thread
			eventually(t, "its sleep in the kernel", func() bool { return threadSleeps(t, id) })
			writer.asleep.Store(awake)
			_ = unix.Close(b.fd) // what the kernel does for the dead
			reader.end()
			select {
			case err := <-ended:
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the reader sleeps on")
			}
		})
	}
}

func TestAReaderWithoutABellCannotBeMadeToRingOne(t *testing.T) {
	writer, _ := sides(t)
	writer.asleep.Store(parked)
	writer.post([]byte("to nobody"))
}

func TestTheLastFrameIsReadBeforeTheEndIsNoticed(t *testing.T) {
	writer, reader := sides(t)
	writer.post([]byte("last words"))
	writer.end()
	buf := make([]byte, maxFrame)
	if frame, err := reader.receive(buf, false); err != nil || string(frame) != "last words" {
		t.Errorf("%q, %v", frame, err)
	}
	if _, err := reader.receive(buf, false); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestAFrameLongerThanThereIsRoomForIsRefused(t *testing.T) {
	writer, reader := sides(t)
	writer.size.Store(maxFrame + 1)
	writer.word.Add(frameStep)
	if _, err := reader.receive(make([]byte, maxFrame), false); !errors.Is(err, errFrame) {
		t.Error(err)
	}
}

func TestAWholeFrameFits(t *testing.T) {
	writer, reader := sides(t)
	whole := bytes.Repeat([]byte{7}, maxFrame)
	writer.post(whole)
	if frame, err := reader.receive(make([]byte, maxFrame), false); err != nil || !bytes.Equal(frame, whole) {
		t.Errorf("%d bytes, %v", len(frame), err)
	}
}

func TestARunStaysOnTheCoreThatIsLeasedForIt(t *testing.T) {
	for _, test := range []struct {
		options edgewise.RunOptions
		want    waitPlan
	}{
		{edgewise.RunOptions{}, waitPlan{core: anywhere}},
		{edgewise.RunOptions{Queued: true}, waitPlan{core: anywhere, park: true}},
		{edgewise.RunOptions{Core: 3}, waitPlan{core: 2, stay: true}},
		{edgewise.RunOptions{Core: 3, Queued: true}, waitPlan{core: 2, park: true}},
	} {
		if got := planWait(test.options); got != test.want {
			t.Errorf("%+v: %+v, want %+v", test.options, got, test.want)
		}
	}
}
