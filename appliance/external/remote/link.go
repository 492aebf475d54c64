package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// link keeps an eye on the model that a version stands for: it knows why requests cannot be answered, and finds out when
// they can again.
type link struct {
	server *Server
	target edgewise.ModelID
	model  *edgewise.Model
	id     edgewise.ModelID
	doubt  chan struct{} // one token: a request failed in a way that asks for a look
	stop   context.CancelFunc
	done   chan struct{}

	mu  sync.Mutex // guards what follows
	err error      // why requests are refused; nil: the model is ready
}

// errConnecting is why requests are refused until the server has been asked for the first time.
var errConnecting = errors.New("its server has not answered yet")

// open asks for the model and follows it until close. Errors: Invalid for a signature that contradicts the version's,
// NotFound and the like. A server that cannot be reached, and a model that is not ready there, are no errors: requests
// are refused as Unavailable until it is.
func (s *Server) open(ctx context.Context, v *edgewise.Version) (*link, error) {
	target, err := Target(v.Model)
	if err != nil {
		return nil, err
	}
	l := &link{
		server: s, target: target, model: v.Model, id: v.ID, doubt: make(chan struct{}, 1), done: make(chan struct{}),
		err: errConnecting,
	}
	if err = l.look(ctx); err != nil && !transient(err) {
		return nil, edgewise.Errorf("remote.Load", edgewise.KindOf(err), "model %v: %w", v.ID, err)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	l.set(err)
	own, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.follow(own)
	return l, nil
}

// transient tells whether an error may go away by itself.
func transient(err error) bool {
	switch edgewise.KindOf(err) {
	case edgewise.Unavailable, edgewise.Deadline, edgewise.Busy, edgewise.Canceled:
		return true
	}
	return false
}

// look asks whether the model is ready, and compares its signature when it was not before.
func (l *link) look(ctx context.Context) error {
	if err := l.server.ready(ctx, l.target); err != nil {
		return err
	}
	if l.ready() == nil {
		return nil
	}
	v, err := l.server.view(ctx, l.target)
	if err != nil {
		return err
	}
	return v.compare(l.model)
}

// follow looks again and again: in an interval while the model is ready, and with a growing wait while it is not.
func (l *link) follow(ctx context.Context) {
	defer close(l.done)
	failures := 0
	for {
		wait := l.server.Interval
		if l.ready() != nil {
			failures++
			wait = l.server.Restarts.BackOff(failures)
		} else {
			failures = 0
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-l.doubted(failures):
			timer.Stop()
		}
		if err := l.look(ctx); ctx.Err() == nil {
			l.set(err)
		}
	}
}

// doubted is where a failed request asks for a look, which the back-off goes before.
func (l *link) doubted(failures int) <-chan struct{} {
	if failures > 0 {
		return nil
	}
	return l.doubt
}

// suspect asks for a look.
func (l *link) suspect() {
	select {
	case l.doubt <- struct{}{}:
	default:
	}
}

func (l *link) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	logger := l.server.Logger.With("model", l.id.Name, "version", l.id.Version)
	switch {
	case err == nil && l.err != nil:
		logger.Info("the model of a server is ready", "address", l.server.Address.String())
	case err != nil && (l.err == nil || errors.Is(l.err, errConnecting)):
		logger.Warn("the model of a server is not ready", "error", err)
	}
	l.err = err
}

// ready returns nil when requests can be answered. Error: Unavailable, with the reason.
func (l *link) ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		return nil
	}
	return edgewise.Errorf("remote", edgewise.Unavailable, "model %v is not ready: %w", l.id, l.err)
}

func (l *link) close() {
	l.stop()
	<-l.done
}
