package apistatus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/edgewise-ai/edgewise"
)

func TestEveryKindHasARow(t *testing.T) {
	if len(table) != len(edgewise.Kinds()) {
		t.Errorf("the table has %d rows, there are %d kinds", len(table), len(edgewise.Kinds()))
	}
	for _, kind := range edgewise.Kinds() {
		s := table[kind]
		if s.HTTP < 400 || s.HTTP > 599 || s.GRPC == 0 || s.GRPC > 16 || s.Wording == "" {
			t.Errorf("%v: %+v is not a complete error status", kind, s)
		}
	}
}

func TestCodesAreTheDocumentedOnes(t *testing.T) {
	for _, test := range []struct {
		kind edgewise.Kind
		http int
		grpc uint32
	}{
		{edgewise.Internal, 500, 13},
		{edgewise.Invalid, 400, 3},
		{edgewise.Unauthenticated, 401, 16},
		{edgewise.Denied, 403, 7},
		{edgewise.NotFound, 404, 5},
		{edgewise.Exists, 409, 6},
		{edgewise.Conflict, 409, 9},
		{edgewise.TooLarge, 413, 3},
		{edgewise.Guest, 422, 9},
		{edgewise.Busy, 503, 14},
		{edgewise.Unavailable, 503, 14},
		{edgewise.Exhausted, 507, 8},
		{edgewise.Deadline, 504, 4},
		{edgewise.Canceled, 499, 1},
		{edgewise.Unsupported, 501, 12},
		{edgewise.Corrupt, 500, 15},
		{edgewise.Kind(200), 500, 13},
	} {
		if s := Of(test.kind); s.HTTP != test.http || s.GRPC != test.grpc {
			t.Errorf("Of(%v) = HTTP %d, gRPC %d; want %d, %d", test.kind, s.HTTP, s.GRPC, test.http, test.grpc)
		}
	}
}

func TestOnlyBusyAsksForARetry(t *testing.T) {
	for _, kind := range edgewise.Kinds() {
		if Of(kind).Retry != (kind == edgewise.Busy) {
			t.Errorf("%v: Retry is %v", kind, Of(kind).Retry)
		}
	}
}

func TestMessageShowsOnlyTextWrittenForClients(t *testing.T) {
	path := &fs.PathError{Op: "open", Path: "/secret/place", Err: errors.New("no")}
	const deadline = "Deadline Exceeded: the time given for this request has passed"
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"classified", edgewise.Errorf("x.Y", edgewise.Invalid, "input %q is missing", "a"), `input "a" is missing`},
		{
			"wrapped classified", fmt.Errorf("in ensemble 'e', %w", edgewise.Errorf("x.Y", edgewise.Invalid, "no input")),
			"in ensemble 'e', no input",
		},
		{"foreign", path, "internal error; the server's log has the details"},
		{"deadline", context.DeadlineExceeded, deadline},
		{"deadline of an error of ours", edgewise.Errorf("x.Y", edgewise.Deadline, "%w", context.DeadlineExceeded), deadline},
		{"cancellation", edgewise.Errorf("x.Y", edgewise.Canceled, "%w", context.Canceled), "the request was canceled"},
		{"without text", &edgewise.Error{Kind: edgewise.NotFound}, "there is no such thing here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Message(test.err); got != test.want {
				t.Errorf("Message = %q, want %q", got, test.want)
			}
		})
	}
}
