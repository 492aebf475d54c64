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
	return tooMany("auth.limited", 0, time.Duration(seconds)*time.Second, "%s: try again in %d s", what, seconds)
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

// The bounds of what one person asks of models with a session, over all their browsers. A page that tries a model stays
// far below them; whoever wants more is a program, and takes a key, whose bounds an admin sets.
const (
	AskRate     = 50  // requests a second
	AskBurst    = 100 // that may come at once
	AskTogether = 8   // in progress
)

// tokens is how many requests may come now; it fills up with time. The zero value is full.
type tokens struct {
	spent float64
	at    time.Time
}

// take spends one of at most most tokens, rate of which come back in a second, or says how long to wait for the next
// one.
func (t *tokens) take(now time.Time, rate, most float64) (wait time.Duration) {
	t.spent = max(0, t.spent-now.Sub(t.at).Seconds()*rate)
	t.at = now
	if left := most - t.spent; left < 1 {
		return time.Duration((1 - left) / rate * float64(time.Second))
	}
	t.spent++
	return 0
}

// asker is what a person has asked lately.
type asker struct {
	running int
	tokens  tokens
}

// Ask counts a request of a person to run something. The caller calls done when it has ended. Errors: Busy with Retry
// beyond AskRate or AskTogether.
func (a *Accounts) Ask(p *edgewise.Principal) (done func(), err error) {
	const op = "auth.Ask"
	a.mu.Lock()
	defer a.mu.Unlock()
	name := fold(p.Name)
	who := a.askers[name]
	if who == nil {
		who = &asker{}
		a.askers[name] = who
	}
	if who.running >= AskTogether {
		return nil, tooMany(op, AskTogether, time.Second, "%s has %d requests in progress, which is the limit of a person: "+
			"wait for one of them, or use an API key", p.Actor(), AskTogether)
	}
	if wait := who.tokens.take(time.Now(), AskRate, AskBurst); wait > 0 {
		return nil, tooMany(op, AskRate, wait, "%s may ask %d times a second: wait a moment, or use an API key", p.Actor(),
			AskRate)
	}
	who.running++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		who.running--
	}, nil
}

// tooMany is the error for too many requests.
func tooMany(op string, limit int64, wait time.Duration, format string, args ...any) error {
	err := edgewise.Errorf(op, edgewise.Busy, format, args...).WithReason("rate_limited").WithLimit(limit)
	err.Retry = wait
	return err
}
