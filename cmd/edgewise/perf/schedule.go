package perf

import (
	"context"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Arrivals says how the arrivals of an open loop are spaced.
type Arrivals uint8

// The spacings.
const (
	Poisson  Arrivals = iota // independent, as from many clients that know nothing of each other
	Constant                 // all equally far apart
)

// schedule yields the arrivals of an open loop, as time since its start. It does not drift: what it yields depends on
// the rate and the seed alone, never on how fast arrivals are read.
type schedule struct {
	rate     float64 // arrivals a second
	arrivals Arrivals
	random   *rand.Rand
	made     uint64
	seconds  float64 // the arrival before, for Poisson
}

func newSchedule(rate float64, arrivals Arrivals, seed uint64) *schedule {
	return &schedule{rate: rate, arrivals: arrivals, random: rand.New(rand.NewPCG(seed, 0x5ced))}
}

// next returns the next arrival. The first one of a constant schedule is 0.
func (s *schedule) next() time.Duration {
	if s.arrivals == Constant {
		at := float64(s.made) / s.rate
		s.made++
		return time.Duration(at * float64(time.Second))
	}
	s.seconds += s.random.ExpFloat64() / s.rate
	return time.Duration(s.seconds * float64(time.Second))
}

// longestSleep bounds one sleep of sleepUntil, so that it sees the end of its context.
const longestSleep = 20 * time.Millisecond

// fineTimer makes the kernel wake the calling thread within a microsecond or so of the time it asked for, instead of
// the usual fifty. The caller has locked itself to its thread.
func fineTimer() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0) }

// sleepUntil blocks the calling thread until t. The runtime's own timers are a millisecond coarse while nothing else
// runs, which would be counted as latency. It returns false when ctx has ended.
func sleepUntil(ctx context.Context, t time.Time) bool {
	for ctx.Err() == nil {
		left := time.Until(t)
		if left <= 0 {
			return true
		}
		part := syscall.NsecToTimespec(int64(min(left, longestSleep)))
		_ = syscall.Nanosleep(&part, nil) // a signal ends it early: the loop looks again
	}
	return false
}

// processorTime returns the processor seconds that this process has used, in user and kernel.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// unpaced is a dialer's control: on loopback it has the connection send at once. BBR, where it is the system's choice,
// spreads what is sent over time and adds tens of milliseconds to some requests, which are neither the server's nor a
// network's.
func unpaced(_, address string, c syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !net.ParseIP(host).IsLoopback() {
		return nil // not a loopback address
	}
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic") // a system without it keeps its own
	})
}
