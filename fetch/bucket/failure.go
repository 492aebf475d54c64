package bucket

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"gocloud.dev/gcerrors"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// failure says what an error of a store means. Its words have no URL, which may hold a signature.
func (b *bucket) failure(err error) error {
	if own, ok := errors.AsType[*fetch.Failure](err); ok {
		return own
	}
	kind, message := b.client.explain(err)
	if message == "" {
		message = plain(err)
	}
	if kind == "" {
		kind = kindOf(err)
	}
	const longest = 400
	return fetch.Failf(kind, "%s", strings.ToValidUTF8(message[:min(len(message), longest)], "?"))
}

// kindOf is the kind of an error whose store has not said what it means: it could not be asked.
func kindOf(err error) string {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return fetch.NotFound
	case gcerrors.PermissionDenied:
		return fetch.Denied
	case gcerrors.FailedPrecondition:
		return fetch.Changed
	case gcerrors.InvalidArgument:
		return fetch.Invalid
	}
	return fetch.Unavailable
}

// plain returns the words of the innermost error that is about the network, or of the error itself.
func plain(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "it did not answer in time"
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}

// kindOfStatus is the kind of an HTTP status; "" for one that says nothing.
func kindOfStatus(status int) string {
	switch {
	case status == 401 || status == 403:
		return fetch.Denied
	case status == 404:
		return fetch.NotFound
	case status == 412 || status == 416:
		return fetch.Changed
	case status == 429 || status >= 500:
		return fetch.Unavailable
	case status >= 300:
		return fetch.Invalid
	}
	return ""
}
