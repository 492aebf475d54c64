// Package apistatus is the one table that turns the kind of an error into the codes of the protocols.
package apistatus

import (
	"context"
	"errors"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Status is what a kind of error looks like from outside.
type Status struct {
	HTTP    int    // the status of an HTTP answer
	GRPC    uint32 // the number of the gRPC code, as in google.rpc.Code
	Wording string // what is said when the error has no text that was written for clients
	Retry   bool   // whether the same request may succeed soon: answered with Retry-After
}

// The gRPC codes in use, by their numbers in google.rpc.Code, so that only one frontend needs the library.
const (
	grpcCanceled           = 1
	grpcInvalidArgument    = 3
	grpcDeadlineExceeded   = 4
	grpcNotFound           = 5
	grpcAlreadyExists      = 6
	grpcPermissionDenied   = 7
	grpcResourceExhausted  = 8
	grpcFailedPrecondition = 9
	grpcUnimplemented      = 12
	grpcInternal           = 13
	grpcUnavailable        = 14
	grpcDataLoss           = 15
	grpcUnauthenticated    = 16
)

// StatusCanceled is the HTTP status for a request whose sender went away. It is not registered; proxies use it too.
const StatusCanceled = 499

var table = [...]Status{
	edgewise.Internal:        {HTTP: 500, GRPC: grpcInternal, Wording: "internal error; the server's log has the details"},
	edgewise.Invalid:         {HTTP: 400, GRPC: grpcInvalidArgument, Wording: "the request is not valid"},
	edgewise.Unauthenticated: {HTTP: 401, GRPC: grpcUnauthenticated, Wording: "no valid identity was presented"},
	edgewise.Denied:          {HTTP: 403, GRPC: grpcPermissionDenied, Wording: "this is not allowed"},
	edgewise.NotFound:        {HTTP: 404, GRPC: grpcNotFound, Wording: "there is no such thing here"},
	edgewise.Exists:          {HTTP: 409, GRPC: grpcAlreadyExists, Wording: "it exists already"},
	edgewise.Conflict:        {HTTP: 409, GRPC: grpcFailedPrecondition, Wording: "the present state does not allow this"},
	edgewise.TooLarge:        {HTTP: 413, GRPC: grpcInvalidArgument, Wording: "the request is over a limit"},
	edgewise.Guest:           {HTTP: 422, GRPC: grpcFailedPrecondition, Wording: "a WebAssembly step failed"},
	edgewise.Busy: {
		HTTP: 503, GRPC: grpcUnavailable, Wording: "the server is busy; try again soon",
		Retry: true,
	},
	edgewise.Unavailable: {HTTP: 503, GRPC: grpcUnavailable, Wording: "this is not ready"},
	edgewise.Exhausted:   {HTTP: 507, GRPC: grpcResourceExhausted, Wording: "memory or disk is used up"},
	edgewise.Deadline: {
		HTTP: 504, GRPC: grpcDeadlineExceeded,
		Wording: "Deadline Exceeded: the time given for this request has passed", // gRPC's own words first
	},
	edgewise.Canceled:    {HTTP: StatusCanceled, GRPC: grpcCanceled, Wording: "the request was canceled"},
	edgewise.Unsupported: {HTTP: 501, GRPC: grpcUnimplemented, Wording: "this server does not serve such requests"},
	edgewise.Corrupt: {HTTP: 500, GRPC: grpcDataLoss, Wording: "stored data is damaged; the server's log has " +
		"the details"},
}

// Of returns the status of a kind. A kind without a row is answered as Internal.
func Of(kind edgewise.Kind) Status {
	if int(kind) < len(table) && table[kind].HTTP != 0 {
		return table[kind]
	}
	return table[edgewise.Internal]
}

// Message returns the text that clients may read of err: the message of an edgewise.Error, and for any other error,
// which nobody wrote for clients and which may name files or addresses, the wording of its kind; so too for an Error
// that has only Go's words for the end of a context.
func Message(err error) string {
	var e *edgewise.Error
	if !errors.As(err, &e) {
		return Of(edgewise.KindOf(err)).Wording
	}
	text := err.Error()
	if e.Err == nil || text == context.DeadlineExceeded.Error() || text == context.Canceled.Error() {
		return Of(e.Kind).Wording
	}
	// What stands around the Error, such as "in ensemble ...", was written by one of us too.
	return text
}

// HidePath returns err without the path of a folder of this machine, in which an archive was unpacked; nil for nil.
func HidePath(err error, dir string) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(strings.ReplaceAll(err.Error(), dir+"/", ""), dir, "the archive")
	return edgewise.Errorf("apistatus.HidePath", edgewise.KindOf(err), "%s", text)
}
