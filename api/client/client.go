// Package client talks to a box over its REST interface: inference, the model repository and the administration of
// models.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Bounds of what a client reads and keeps open.
const (
	MaxAnswer       = 1 << 30          // bytes of an answer
	maxErrorAnswer  = 1 << 20          // bytes of an answer that is an error
	connectTimeout  = 10 * time.Second // until the connection stands
	idleConnections = 64
	idleTimeout     = 90 * time.Second
)

// ErrAnswer is part of every error about an answer that is over a bound, or is not what the protocol says.
var ErrAnswer = errors.New("the answer cannot be used")

// Client talks to one box. It is safe for concurrent use and keeps connections open between requests. How long a
// request may take is up to its context.
type Client struct {
	base  string // without a slash at its end
	http  *http.Client
	token string // sent with every request; empty: none
	most  int64  // bytes of an answer
}

// Option changes a Client while it is made.
type Option func(*Client)

// WithToken makes the client send an API key, or the local token of a box, with every request.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithAuthorities makes the client trust the boxes whose certificates these authorities have signed, and no others.
func WithAuthorities(pool *x509.CertPool) Option {
	return func(c *Client) {
		if t, ok := c.http.Transport.(*http.Transport); ok {
			t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		}
	}
}

// WithDialer makes the client speak to whatever dial connects to, and to nothing else: it follows no redirection, and
// asks no proxy.
func WithDialer(dial func(context.Context) (net.Conn, error)) Option {
	return func(c *Client) {
		c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if t, ok := c.http.Transport.(*http.Transport); ok {
			t.Proxy = nil
			t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
		}
	}
}

// WithConnections makes the client send at most n requests at a time, and keep their connections open. Further requests wait.
func WithConnections(n int) Option {
	return func(c *Client) {
		if t, ok := c.http.Transport.(*http.Transport); ok {
			t.MaxConnsPerHost, t.MaxIdleConnsPerHost = n, n
		}
	}
}

// WithMaxAnswer bounds the bytes of an answer, in place of MaxAnswer.
func WithMaxAnswer(n int64) Option { return func(c *Client) { c.most = n } }

// New returns a client of the box at the URL base, such as "http://127.0.0.1:8000". Errors: Invalid for a base that is
// no http or https URL.
func New(base string, options ...Option) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, edgewise.Errorf("client.New", edgewise.Invalid, "%w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, edgewise.Errorf("client.New", edgewise.Invalid, "%q is no base URL: want http://host:port", base)
	}
	c := &Client{base: strings.TrimRight(u.String(), "/"), http: &http.Client{Transport: transport()}, most: MaxAnswer}
	for _, o := range options {
		o(c)
	}
	return c, nil
}

func transport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:   connectTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   idleConnections,
		IdleConnTimeout:       idleTimeout,
		DisableCompression:    true, // tensors do not shrink, and their lengths are announced
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        64 << 10,
		ExpectContinueTimeout: time.Second,
	}
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// answer sends a request and returns the answer if its status is a success. The caller closes its body.
func (c *Client) answer(req *http.Request) (*http.Response, error) {
	op := "client." + req.Method
	if c.token != "" {
		if req.Header == nil {
			req.Header = http.Header{}
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(req.Context(), op, c.base, err)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxErrorAnswer))
	var body kserve.ErrorBody
	if err != nil || json.Unmarshal(text, &body) != nil || body.Error == "" {
		body = kserve.ErrorBody{Error: fmt.Sprintf("%s %s: %s", req.Method, req.URL, res.Status)}
	}
	return nil, body.Err(op, res.StatusCode)
}

// unreachable classifies an error of the connection. The error of a request that was canceled may be the cause of that alone.
func unreachable(ctx context.Context, op, base string, err error) error {
	var own *edgewise.Error
	switch {
	case errors.As(err, &own): // from the body that was sent
		return own
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return edgewise.Errorf(op, edgewise.Deadline, "%w", err)
	case errors.Is(err, context.Canceled) || ctx.Err() != nil:
		return edgewise.Errorf(op, edgewise.Canceled, "%w", err)
	}
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return edgewise.Errorf(op, edgewise.Unavailable, "no answer from %s: %w", base, err)
}

// do sends a request and returns the answer if its status is a success. The caller closes its body. header may be nil.
func (c *Client) do(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response,
	error,
) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, edgewise.Errorf("client."+method, edgewise.Invalid, "%w", err)
	}
	if header != nil {
		req.Header = header
	}
	return c.answer(req)
}

// call sends a request with body as JSON, nil for none, and reads the answer into result, nil for one that is not read.
func (c *Client) call(ctx context.Context, method, path string, body, result any) error {
	var header http.Header
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return edgewise.Errorf("client."+method, edgewise.Internal, "%w", err)
		}
		header, reader = http.Header{"Content-Type": {"application/json"}}, bytes.NewReader(text)
	}
	res, err := c.do(ctx, method, path, header, reader)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return c.decode(res, result)
}

// send posts a body of length bytes, -1 when that is not known, and reads the answer into result. A server that refuses
// answers before the body is sent.
func (c *Client) send(ctx context.Context, path string, header http.Header, length int64, body io.Reader, result any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, body)
	if err != nil {
		return edgewise.Errorf("client.send", edgewise.Invalid, "%w", err)
	}
	req.ContentLength, req.Header = length, header
	req.Header.Set("Expect", "100-continue")
	res, err := c.answer(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return c.decode(res, result)
}

// decode reads an answer in JSON into result, nil for one that is not read.
func (c *Client) decode(res *http.Response, result any) error {
	if result == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxErrorAnswer)) // so that the connection is used again
		return nil
	}
	text, err := c.readAnswer(res)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, result); err != nil {
		return edgewise.Errorf("client.decode", edgewise.Internal, "%s %s: %w: %w",
			res.Request.Method, res.Request.URL, ErrAnswer, err)
	}
	return nil
}

// readAnswer reads the body of an answer within its bound. Memory grows with what arrives, not with what is announced.
func (c *Client) readAnswer(res *http.Response) ([]byte, error) {
	const op, announced = "client.readAnswer", 16 << 20
	if res.ContentLength > c.most {
		return nil, edgewise.Errorf(op, edgewise.TooLarge, "%w: it has %d bytes, at most %d are read", ErrAnswer,
			res.ContentLength, c.most)
	}
	var into bytes.Buffer
	into.Grow(int(max(0, min(res.ContentLength, announced))) + bytes.MinRead)
	n, err := into.ReadFrom(io.LimitReader(res.Body, c.most+1))
	switch {
	case err != nil:
		return nil, unreachable(res.Request.Context(), op, res.Request.URL.Host, err)
	case n > c.most:
		return nil, edgewise.Errorf(op, edgewise.TooLarge, "%w: it has more than %d bytes", ErrAnswer, c.most)
	}
	return into.Bytes(), nil
}
