package oci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// failed makes the failure of an error about something. The error of a context stays what it is.
func failed(thing string, err error) error {
	if own, ok := errors.AsType[*fetch.Failure](err); ok {
		return own
	}
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		return refused(thing, answer)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, errdef.ErrNotFound) { // its words name the thing again
		return fetch.Failf(fetch.NotFound, "%s: the registry does not have it", thing)
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // the URL of a store behind a registry may hold a token
	}
	return fetch.Failf(kindOf(err), "%s: %v", thing, err)
}

// refused is the failure for an answer of a registry.
func refused(thing string, answer *errcode.ErrorResponse) error {
	said := http.StatusText(answer.StatusCode)
	if len(answer.Errors) > 0 && answer.Errors[0].Message != "" {
		said = answer.Errors[0].Message
	}
	at := answer.URL.Host
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized:
		return fetch.Failf(fetch.Denied, "%s: %s wants credentials, or others (%.200s)", thing, at, said)
	case status == http.StatusForbidden:
		return fetch.Failf(fetch.Denied, "%s: %s does not allow it (%.200s)", thing, at, said)
	case status == http.StatusNotFound:
		return fetch.Failf(fetch.NotFound, "%s: %s does not have it (%.200s)", thing, at, said)
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= http.StatusInternalServerError:
		return fetch.Failf(fetch.Unavailable, "%s: %s answers %d again and again (%.200s)", thing, at, status, said)
	}
	return fetch.Failf(fetch.Invalid, "%s: %s answers %d (%.200s)", thing, at, answer.StatusCode, said)
}

// kindOf tells the kind of an error of the libraries. All but those of connections and names are answers that contradict the
// digests or sizes that were asked for: Corrupt.
func kindOf(err error) string {
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return fetch.NotFound
	case errors.Is(err, errdef.ErrSizeExceedsLimit) || errors.Is(err, errdef.ErrTooManyPages):
		return fetch.TooLarge
	case errors.Is(err, errdef.ErrInvalidReference):
		return fetch.Invalid
	case errors.Is(err, auth.ErrBasicCredentialNotFound) || errors.Is(err, errNoTLS) || errors.Is(err, errHelper) || distrusted(err):
		return fetch.Denied
	case isTransient(err):
		return fetch.Unavailable
	}
	return fetch.Corrupt
}

// distrusted tells whether the certificate of a registry is none that is believed.
func distrusted(err error) bool {
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	return authority || name || verification
}

// isTransient tells whether the same may succeed later: the connection failed, ended early, or was silent.
func isTransient(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed)
}
