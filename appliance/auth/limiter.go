package auth

import (
	"net/netip"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// The bounds of tries to log in from one address.
const (
	TriesPerSecond = 1
	TriesPerMinute = 5
	TriesPerHour   = 20

	maxAddresses = 4096 // remembered at a time; beyond it those who tried longest ago are forgotten
)

// limiter counts tries to log in by address. An IPv6 address counts as its /64, which one customer has for itself.
type limiter struct {
	mu    sync.Mutex // guards tries
	tries map[string][]time.Time
}

func newLimiter() *limiter { return &limiter{tries: map[string][]time.Time{}} }

// try counts a try, or says how long to wait for the next one.
func (l *limiter) try(address string) (wait time.Duration) {
	now, who := time.Now(), network(address)
	l.mu.Lock()
	defer l.mu.Unlock()
	recent := l.tries[who]
	for len(recent) > 0 && now.Sub(recent[0]) >= time.Hour {
		recent = recent[1:]
	}
	for _, bound := range []struct {
		n    int
		span time.Duration
	}{{TriesPerSecond, time.Second}, {TriesPerMinute, time.Minute}, {TriesPerHour, time.Hour}} {
		if len(recent) >= bound.n {
			wait = max(wait, bound.span-now.Sub(recent[len(recent)-bound.n]))
		}
	}
	if wait <= 0 {
		recent = append(recent, now)
	}
	l.tries[who] = recent
	if len(l.tries) > maxAddresses {
		l.forgetOldest()
	}
	return max(wait, 0)
}

func (l *limiter) forgetOldest() {
	oldest, at := "", time.Time{}
	for who, list := range l.tries {
		last := time.Time{}
		if len(list) > 0 {
			last = list[len(list)-1]
		}
		if oldest == "" || last.Before(at) {
			oldest, at = who, last
		}
	}
	delete(l.tries, oldest)
}

// forgive takes back the last try of an address, which was good. Those before it count: who has an account must not get
// tries for another one by it.
func (l *limiter) forgive(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	who := network(address)
	if recent := l.tries[who]; len(recent) > 1 {
		l.tries[who] = recent[:len(recent)-1]
		return
	}
	delete(l.tries, who)
}

// network returns what counts as one address.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	prefix, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return prefix.String()
}

// limited is the error for who has to wait.
func limited(what string, wait time.Duration) error {
	seconds := int((wait + time.Second - 1) / time.Second) // who waits as long as that has waited long enough
	err := edgewise.Errorf("auth.limited", edgewise.Busy, "%s: try again in %d s", what, seconds)
	err.Reason, err.Retry = "rate_limited", time.Duration(seconds)*time.Second
	return err
}

// The bounds of tries to claim the box, from all addresses together.
const (
	ClaimTries = 10
	ClaimPause = 30 * time.Second
)

// pause refuses tries for a while after too many wrong ones.
type pause struct {
	wrong int
	until time.Time
}
