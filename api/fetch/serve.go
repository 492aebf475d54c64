package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// Replies sends the replies to one request. It is safe for concurrent use.
type Replies struct {
	mu  *sync.Mutex // guards out
	out io.Writer
}

// Send sends a reply. An error means that nobody reads it.
func (r Replies) Send(reply Reply) error {
	line, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err = r.out.Write(append(line, '\n'))
	return err
}

// Handler answers a request. The error that it returns is sent as the failure of the request, of kind Internal unless it
// is a *Failure.
type Handler func(ctx context.Context, r *Request, to Replies) error

// Serve is the program's half of a connection: it answers requests until in ends, which also ends the context of the
// request that is being answered.
func Serve(ctx context.Context, in io.Reader, out io.Writer, handle Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to := Replies{new(sync.Mutex), out}
	requests := make(chan *Request)
	go func() {
		defer close(requests)
		defer cancel()
		for s := lines(in); s.Scan(); {
			r := &Request{}
			if err := json.Unmarshal(s.Bytes(), r); err != nil {
				return // whoever sends this does not understand a reply either
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	for r := range requests {
		if r.Version != Version {
			return to.Send(Reply{Version: Version, Failure: Failf(Unsupported, "version %d of the protocol", r.Version), Done: true})
		}
		last := Reply{Done: true}
		if err := handle(ctx, r, to); err != nil {
			last.Failure = failureOf(err)
		}
		if err := to.Send(last); err != nil {
			return err
		}
	}
	return nil
}

func failureOf(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return Failf(Internal, "%v", err)
}
