package grpcapi

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// admission is an authorized call. It ends once, with the call at the latest.
type admission struct {
	authorize func() (*edgewise.Principal, func(), error) // authorizes one more message
	done      func()                                      // the request that the call was counted as has ended
	end       func()                                      // the call has ended
	// whether the call's own count has stood for a message; owned by the reader
	used bool
}

type admissionKey struct{}

func admissionOf(ctx context.Context) *admission {
	a, _ := ctx.Value(admissionKey{}).(*admission)
	return a
}

// revokeGrace is the time that a stream has after its caller was revoked, to end with a status that says so. When the
// context of a stream ends, the library writes a status of its own.
const revokeGrace = 500 * time.Millisecond

// enter authorizes a call. The context that it returns carries the caller, and ends when the caller is revoked.
func (s *Server) enter(ctx context.Context, secret string, from net.Addr, streams bool) (context.Context,
	*edgewise.Principal, error,
) {
	authorize := func() (*edgewise.Principal, func(), error) { return s.deps.Authorize(secret, from) }
	caller, done, err := authorize()
	if err != nil {
		return ctx, nil, err
	}
	stop := func() bool { return true }
	call, cancel := context.WithCancelCause(edgewise.WithPrincipal(ctx, caller))
	if caller.Lifetime != nil {
		stop = context.AfterFunc(caller.Lifetime, func() {
			if streams {
				time.AfterFunc(revokeGrace, func() { cancel(caller.Revoked()) })
			} else {
				cancel(caller.Revoked())
			}
		})
	}
	a := &admission{authorize: authorize, done: once(done)}
	a.end = sync.OnceFunc(func() {
		stop()
		a.done()
	})
	context.AfterFunc(ctx, func() { // the transport's context ends with the call, however that ends
		a.end()
		cancel(nil)
	})
	return context.WithValue(call, admissionKey{}, a), caller, nil
}

// once makes of a function, which may be nil, one that does nothing the second time.
func once(f func()) func() {
	if f == nil {
		return func() {}
	}
	return sync.OnceFunc(f)
}

// leave ends the admission of a call before the response is written: the client's next call finds room.
func leave(ctx context.Context) {
	if a := admissionOf(ctx); a != nil {
		a.end()
	}
}

// message admits one message of a stream like a call of its own: it counts against the rate and the concurrency of the
// caller. The admission of the stream stands for the first one. The caller calls done when the message is answered.
// Errors: those of Deps.Authorize.
func (a *admission) message() (done func(), err error) {
	if a == nil {
		return once(nil), nil
	}
	if !a.used {
		a.used = true
		return a.done, nil
	}
	_, done, err = a.authorize()
	return once(done), err
}
