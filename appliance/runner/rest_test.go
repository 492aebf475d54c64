package runner

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgewise-ai/edgewise"
)

// booked counts what an instance claims.
type booked struct {
	refuse             error
	take, give, settle atomic.Int64
	bytes              atomic.Int64
}

func (b *booked) claims() edgewise.Claims {
	return edgewise.Claims{
		Take: func(context.Context) error {
			if b.refuse != nil {
				return b.refuse
			}
			b.take.Add(1)
			return nil
		},
		Taken: func(n, most int64) {
			b.settle.Add(1)
			b.bytes.Store(min(n, most))
		},
		Give: func() { b.give.Add(1) },
	}
}

func TestAChildThatRestsIsStartedByTheNextRun(t *testing.T) {
	i, b := load(t, setUp(fakeOptions{}), t.TempDir()), &booked{}
	if i.Rest() {
		t.Error("it rests, and nobody said that it may")
	}
	i.OnDemand(b.claims())
	before := i.Stats().PID
	if now, most := i.Takes(); now <= 0 || most < now {
		t.Errorf("its process takes %d bytes, at the most %d", now, most)
	}
	if !i.Rest() || i.Rest() {
		t.Error("the first Rest ends the child, the second finds none")
	}
	if now, most := i.Takes(); now != 0 || most != 0 {
		t.Errorf("resting it takes %d bytes, at the most %d", now, most)
	}
	if p, ok := i.Process(); !ok || p.PID != 0 || !p.Resting || !strings.Contains(p.Reason, "loaded by the next request") {
		t.Errorf("resting: %+v", p)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := echo(i, floats("a", 5)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if s := i.Stats(); s.PID == 0 || s.PID == before || s.Crashes != 0 {
		t.Errorf("after 8 runs at once: %+v, before it rested the child was %d", s, before)
	}
	if b.take.Load() != 1 || b.settle.Load() != 1 || b.give.Load() != 1 || b.bytes.Load() <= 0 {
		t.Errorf("taken %d times, given %d times, settled %d times at %d bytes", b.take.Load(), b.give.Load(), b.settle.Load(), b.bytes.Load())
	}
	fails(t, i, "crash", edgewise.Unavailable)
	eventually(t, "a restart after a crash", func() bool { return echo(i, floats("a", 5)) == nil })
	if got := b.take.Load(); got != 1 {
		t.Errorf("a crash has claimed memory: %d claims", got)
	}
}

// TestRestWaitsForRunsAndLosesNone lets a child rest over and over under runs.
func TestRestWaitsForRunsAndLosesNone(t *testing.T) {
	i, b := load(t, setUp(fakeOptions{}), t.TempDir()), &booked{}
	i.OnDemand(b.claims())
	var group sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := echo(i, floats("a", 5)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for rests := 0; rests < 10; {
		if i.Rest() {
			rests++
		}
	}
	close(done)
	group.Wait()
	if err := echo(i, floats("a", 5)); err != nil {
		t.Error(err)
	}
	if s := i.Stats(); s.Crashes != 0 || b.give.Load() != 10 || b.take.Load() != 10 {
		t.Errorf("%+v; taken %d times, given %d times", s, b.take.Load(), b.give.Load())
	}
}

func TestAChildThatFindsNoMemorySaysSoAndIsTriedAgain(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	b := &booked{refuse: edgewise.Errorf("test", edgewise.Exhausted, "no room")}
	i.OnDemand(b.claims())
	i.Rest()
	err := echo(i, floats("a", 5))
	want := `model "x" version 1: it had given its memory up and cannot be loaded again: no room`
	if edgewise.KindOf(err) != edgewise.Exhausted || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	b.refuse = nil
	if err := echo(i, floats("a", 5)); err != nil {
		t.Error(err)
	}
}

func TestARunThatIsGivenUpLeavesTheStartToOthers(t *testing.T) {
	i, b := load(t, setUp(fakeOptions{}), t.TempDir()), &booked{}
	held := make(chan struct{})
	c := b.claims()
	c.Take = func(ctx context.Context) error {
		select {
		case <-held:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	i.OnDemand(c)
	i.Rest()
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := i.Run(ctx, nil, []string{"pid"}, edgewise.RunOptions{})
		given <- err
	}()
	eventually(t, "somebody starts the child", func() bool {
		i.group.mu.Lock()
		defer i.group.mu.Unlock()
		return i.group.waking != nil
	})
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("the run that was given up got %v", err)
	}
	close(held)
	if err := echo(i, floats("a", 5)); err != nil {
		t.Error(err)
	}
}

// unclosed is load for an instance that the test closes.
func unclosed(t *testing.T) *Instance {
	t.Helper()
	i, err := New(setUp(fakeOptions{})).Load(t.Context(), version(), t.TempDir(), edgewise.Device{})
	if err != nil {
		t.Fatal(err)
	}
	return i.(*Instance)
}

func TestClosingAVersionThatRestsOrIsBeingStartedEndsIt(t *testing.T) {
	t.Run("rests", func(t *testing.T) {
		i, b := unclosed(t), &booked{}
		i.OnDemand(b.claims())
		i.Rest()
		if err := i.Close(); err != nil {
			t.Error(err)
		}
		if err := echo(i, floats("a", 5)); edgewise.KindOf(err) != edgewise.Unavailable {
			t.Errorf("after Close: %v", err)
		}
	})
	t.Run("waits for memory", func(t *testing.T) {
		i, b := unclosed(t), &booked{}
		c, asked := b.claims(), make(chan struct{})
		c.Take = func(ctx context.Context) error {
			close(asked)
			<-ctx.Done()
			return ctx.Err()
		}
		i.OnDemand(c)
		i.Rest()
		ended := make(chan error, 1)
		go func() { ended <- echo(i, floats("a", 5)) }()
		<-asked
		if err := i.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil {
			t.Error("a run was answered after Close")
		}
		if s := i.Stats(); s.PID != 0 {
			t.Errorf("a child was started: %+v", s)
		}
	})
}

func TestAChildThatIsToBeStartedAfterACrashMayRestInstead(t *testing.T) {
	c := setUp(fakeOptions{})
	c.FirstBackOff, c.LastBackOff = time.Hour, time.Hour
	i, b := load(t, c, t.TempDir()), &booked{}
	i.OnDemand(b.claims())
	fails(t, i, "crash", edgewise.Unavailable)
	eventually(t, "the crash is counted", func() bool { return i.Stats().Crashes == 1 })
	if err := echo(i, floats("a", 5)); edgewise.KindOf(err) != edgewise.Unavailable {
		t.Errorf("while it waits for its restart: %v", err)
	}
	if !i.Rest() {
		t.Error("it does not rest")
	}
	if err := echo(i, floats("a", 5)); err != nil {
		t.Error(err)
	}
}

// TestMemoryIsGivenBackBeforeItIsTakenAgain has a run come while the child ends.
func TestMemoryIsGivenBackBeforeItIsTakenAgain(t *testing.T) {
	i := load(t, setUp(fakeOptions{}), t.TempDir())
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	i.OnDemand(edgewise.Claims{
		Take: func(context.Context) error {
			note("take")
			return nil
		},
		Taken: func(int64, int64) {},
		Give: func() {
			eventually(t, "a run that waits for the child", func() bool {
				_, _, busy := i.Used()
				return busy
			})
			for range 1000 {
				runtime.Gosched() // who takes too early does it now
			}
			note("give")
		},
	})
	ran := make(chan error, 1)
	go func() {
		for !i.Resting() {
			runtime.Gosched()
		}
		ran <- echo(i, floats("a", 5))
	}()
	i.Rest()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if got := strings.Join(order, " "); got != "give take" {
		t.Errorf("the order was %s", got)
	}
}

// TestAChildWhoseMemoryIsWaitedForEndsAsFastAsOthersServe holds a child up that is to rest, and reads how nice it is until it
// is killed for that.
func TestAChildWhoseMemoryIsWaitedForEndsAsFastAsOthersServe(t *testing.T) {
	i, b := load(t, setUp(fakeOptions{}), t.TempDir()), &booked{}
	i.OnDemand(b.claims())
	pid := i.Stats().PID
	before, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	rested := make(chan bool)
	go func() { rested <- i.Rest() }()
	for {
		select {
		case ok := <-rested:
			if !ok {
				t.Error("the child did not rest")
			}
			return
		default:
		}
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, pid); err == nil && now < before { // counted from 40, the least nice
			t.Fatalf("its priority went from %d to %d", before, now)
		}
		runtime.Gosched()
	}
}

// TestWhoHasWaitedForAChildHasItsRunBeforeTheChildRestsAgain has others ask for the memory as soon as the child is there.
func TestWhoHasWaitedForAChildHasItsRunBeforeTheChildRestsAgain(t *testing.T) {
	i, b := load(t, setUp(fakeOptions{}), t.TempDir()), &booked{}
	claims, rests := b.claims(), make(chan bool)
	taken := claims.Taken
	claims.Taken = func(now, most int64) {
		taken(now, most)
		go func() { rests <- i.Rest() }()
	}
	i.OnDemand(claims)
	i.Rest()
	release, err := i.Wake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := echo(i, floats("a", 5)); err != nil {
			t.Error(err)
		}
	}
	if n := i.stats.wakes.Load(); n > 1 {
		t.Errorf("the child was started %d times for one who waited", n)
	}
	select {
	case <-rests:
		t.Error("the child rests before what it was started for has run")
	default:
	}
	release()
	if !<-rests || !i.Resting() {
		t.Error("the child does not rest after that")
	}
}

// TestAWaitThatIsGivenUpDoesNotKeepTheChildFromResting gives up one of two waits before the child is there.
func TestAWaitThatIsGivenUpDoesNotKeepTheChildFromResting(t *testing.T) {
	i, b := load(t, setUp(fakeOptions{}), t.TempDir()), &booked{}
	claims, proceed := b.claims(), make(chan struct{})
	take := claims.Take
	claims.Take = func(ctx context.Context) error {
		<-proceed
		return take(ctx)
	}
	i.OnDemand(claims)
	i.Rest()
	other := make(chan func())
	go func() {
		release, err := i.Wake(t.Context())
		if err != nil {
			t.Error(err)
		}
		other <- release
	}()
	eventually(t, "a start", func() bool { _, _, busy := i.Used(); return busy })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.Wake(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(proceed)
	(<-other)()
	if !i.Rest() {
		t.Error("the child does not rest")
	}
}
