package perf

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// MaxRequestBytes bounds the body of a request.
const MaxRequestBytes = 1 << 30

// Request is an inference request as it goes over the wire, made once and sent by every connection. It is read-only.
type Request struct {
	address    string // host:port
	serverName string
	secure     bool
	roots      *x509.CertPool // nil: those of the system
	bytes      []byte         // head and body
}

// Access is what a server is shown, and how it is recognised. The zero value is nothing.
type Access struct {
	Token       string         // API key
	Authorities *x509.CertPool // of the server's certificate; nil: those of the system
}

// NewRequest makes a request to the server at the URL base, with its tensors and the answer's in the given form.
// Errors: Invalid for a base that is no http or https URL and for tensors that have no such form; TooLarge over
// MaxRequestBytes.
func NewRequest(base string, req *edgewise.Request, form kserve.Form, access Access) (*Request, error) {
	size := 0
	for i := range req.Inputs {
		size += len(req.Inputs[i].Data)
	}
	if size > MaxRequestBytes {
		return nil, edgewise.Errorf("perf.NewRequest", edgewise.TooLarge, "the inputs have %d bytes, at most %d are allowed",
			size, MaxRequestBytes)
	}
	body, jsonSize, err := kserve.AppendInferRequest(nil, req, form, form)
	if err != nil {
		return nil, err
	}
	if len(body) > MaxRequestBytes {
		return nil, edgewise.Errorf("perf.NewRequest", edgewise.TooLarge, "the request has %d bytes, at most %d are allowed",
			len(body), MaxRequestBytes)
	}
	fields := "Content-Type: application/json\r\n"
	if jsonSize < len(body) {
		fields = "Content-Type: application/octet-stream\r\n" + kserve.HeaderLength + ": " + strconv.Itoa(jsonSize) + "\r\n"
	}
	if access.Token != "" {
		fields += "Authorization: Bearer " + access.Token + "\r\n"
	}
	r, err := NewPost(base, inferPath(req.Model), fields, body)
	if err != nil {
		return nil, err
	}
	r.roots = access.Authorities
	return r, nil
}

func inferPath(id edgewise.ModelID) string {
	path := "/v2/models/" + url.PathEscape(id.Name)
	if id.Version != 0 {
		path += "/versions/" + strconv.FormatInt(id.Version, 10)
	}
	return path + "/infer"
}

// NewPost makes any other request to the server at the URL base; fields are whole lines of its head. Errors: Invalid for
// a base that is no http or https URL.
func NewPost(base, path, fields string, body []byte) (*Request, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, edgewise.Errorf("perf.NewRequest", edgewise.Invalid, "%q is no base URL: want http://host:port", base)
	}
	r := &Request{serverName: u.Hostname(), secure: u.Scheme == "https"}
	port := u.Port()
	if port == "" {
		port = map[bool]string{false: "80", true: "443"}[r.secure]
	}
	r.address = net.JoinHostPort(u.Hostname(), port)
	head := fmt.Sprintf("POST %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: edgewise-perf\r\n%sContent-Length: %d\r\n\r\n",
		strings.TrimRight(u.EscapedPath(), "/"), path, u.Host, fields, len(body))
	r.bytes = append(append(make([]byte, 0, len(head)+len(body)), head...), body...)
	return r, nil
}

// Bytes returns the request as it is sent, head and body. They are not to be changed.
func (r *Request) Bytes() []byte { return r.bytes }

// Dial returns what sends the request on a connection of its own, one at a time, and what closes it.
func (r *Request) Dial(ctx context.Context, timeout time.Duration) (call func() error, hangUp func()) {
	c := newConnection(r, timeout, 1)
	return func() error { return c.call(ctx) }, c.close
}

// Try sends the request once. It returns nil when the server answers it with status 200, else an error that says why
// not, in the kind that the status stands for; Unavailable when there was no answer.
func (r *Request) Try(ctx context.Context, timeout time.Duration) error {
	call, hangUp := r.Dial(ctx, timeout)
	defer hangUp()
	err := call()
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return kserve.ErrorBody{Error: refused.text}.Err("perf.Try", refused.status)
	}
	return edgewise.Errorf("perf.Try", edgewise.Unavailable, "%s: %s", r.address, textOf(err, timeout))
}
