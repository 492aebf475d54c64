package auth

import (
	"time"

	"github.com/edgewise-ai/edgewise"
)

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
	err := edgewise.Errorf(op, edgewise.Busy, format, args...)
	err.Reason, err.Limit, err.Retry = "rate_limited", limit, wait
	return err
}
