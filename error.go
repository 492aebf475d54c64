package edgewise

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind classifies an error by what its receiver can do about it. The frontends (REST, gRPC, the command line) translate
// a Kind into their own codes with one table; nothing else looks at the text of an error.
type Kind uint8

// The kinds. The zero value is Internal: an error without a kind is a bug of ours.
const (
	Internal        Kind = iota // a bug of ours, or a fault of the machine
	Invalid                     // the caller's input is wrong and stays wrong
	Unauthenticated             // no valid identity was presented
	Denied                      // the identity may not do this
	NotFound                    // the named thing does not exist
	Exists                      // the thing to be made is there already
	Conflict                    // the present state does not allow it
	TooLarge                    // over a documented bound
	Guest                       // a WebAssembly step failed or trapped
	Busy                        // a queue or a budget is full; try again soon
	Unavailable                 // known, but not ready
	Exhausted                   // memory or disk is used up
	Deadline                    // the time given has passed
	Canceled                    // the caller went away
	Unsupported                 // a request that this box never serves
	Corrupt                     // stored bytes are not what was written
	kinds
)

var kindNames = [kinds]string{
	"internal", "invalid", "unauthenticated", "denied", "not_found", "exists", "conflict", "too_large", "guest", "busy",
	"unavailable", "exhausted", "deadline", "canceled", "unsupported", "corrupt",
}

// String returns the kind's name as it stands in metrics, logs and JSON errors.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Kinds returns every kind, in order. Tables that must be total are tested against it.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Refusal tells whether an error of the kind is about the request, its caller or a bound, and says nothing about the
// health of the model that it was meant for.
func (k Kind) Refusal() bool {
	switch k {
	case Invalid, Unauthenticated, Denied, NotFound, Exists, Conflict, TooLarge, Busy, Canceled, Unsupported:
		return true
	}
	return false
}

// StepRefusal is why a step refuses its input, in its own words.
type StepRefusal struct{ Text string }

// Error returns the words.
func (r *StepRefusal) Error() string { return "step: " + r.Text }

// About gives an error the model that it is about, unless its outermost Error names that already. Its message stays.
func About(id ModelID, err error) error {
	own, ok := errors.AsType[*Error](err)
	if ok && err == error(own) && own.Model == id {
		return err
	}
	about := &Error{Op: "edgewise.About", Kind: KindOf(err), Model: id, Err: err}
	if ok {
		about.Op, about.Limit, about.Reason, about.Field, about.Retry = own.Op, own.Limit, own.Reason, own.Field, own.Retry
	}
	return about
}

// Error is the one error type of the project. Foreign errors are wrapped in it once, where the foreign library ends.
type Error struct {
	Op    string  // the operation that failed, as "package.Func"; for logs, not for clients
	Kind  Kind    // what the receiver can do about it
	Model ModelID // the model it is about; empty when it is about none
	Limit int64   // the bound that was crossed, in its own unit; 0: none, or none that is known

	Reason string        // what a program does about it, such as "login_required"; empty: nothing special
	Field  string        // the member of the caller's input that is wrong; empty: none, or none that is known
	Retry  time.Duration // when to try again; 0: not known

	Err error // the message, complete by itself: it names the thing and the limit
}

// Error returns the message alone. Op, Kind, Model and Limit travel beside it for those who log or encode them.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Kind.String()
	}
	return e.Err.Error()
}

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error whose message is formatted as by fmt.Errorf (so %w works).
func Errorf(op string, kind Kind, format string, args ...any) *Error {
	return &Error{Op: op, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// WithField names the member of the caller's input that is wrong.
func (e *Error) WithField(name string) *Error {
	e.Field = name
	return e
}

// WithLimit names the bound that was crossed.
func (e *Error) WithLimit(limit int64) *Error {
	e.Limit = limit
	return e
}

// WithReason says what a program does about the error.
func (e *Error) WithReason(reason string) *Error {
	e.Reason = reason
	return e
}

// KindOf returns the kind of the outermost Error in err's chain; for context errors Deadline and Canceled; otherwise
// Internal. It panics on nil, which has no kind.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case err == nil:
		panic("BUG: KindOf(nil)")
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return Deadline
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return Internal
}
