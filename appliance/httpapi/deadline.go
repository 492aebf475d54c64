package httpapi

import "time"

// slackShare is the part of a time limit by which it may be over too early: moving the limit of a socket takes locks
// and timers, and on a busy connection every request moves it several times without waiting under it.
const slackShare = 64

// deadline is a time limit of a socket, which is moved when somebody is about to wait under it and no sooner.
type deadline struct {
	want  time.Time     // zero: none
	set   time.Time     // what the socket has
	slack time.Duration // how much later want may be than set
}

// apply moves the socket's limit if that is necessary.
func (d *deadline) apply(move func(time.Time) error) error {
	if late := d.want.Sub(d.set); !d.set.IsZero() && late >= 0 && late <= d.slack || d.want.Equal(d.set) {
		return nil
	}
	if err := move(d.want); err != nil {
		return err
	}
	d.set, d.slack = d.want, 0
	if !d.want.IsZero() {
		d.slack = time.Until(d.want) / slackShare
	}
	return nil
}
