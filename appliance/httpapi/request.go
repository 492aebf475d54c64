package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
)

// Handler answers a request. An error is answered with the status of its kind.
type Handler func(r *Request) error

// Request is the request in progress on a connection. It is valid until its handler returns.
type Request struct {
	*fiber.Ctx // set while the handler runs

	Caller  *edgewise.Principal // nil: not known
	Stream  *Stream             // the body as it arrives; set for handlers
	Counted bool                // it is an inference, and the engine counts it

	Actor, Target, Detail string // for the audit log; filled in by handlers

	match                  // its route
	forwarded     []string // the header in which proxies name the client; nil where none is trusted
	body          Stream   // what Stream points to
	conn          *conn
	server        *Server
	cookie        bool   // the caller was recognised by the cookie
	done          func() // ends the caller's request; nil: nothing to end
	origin        []byte // of the page of another site that sends it; nil: none
	originAllowed bool   // that page may read the answer
}

// requestOf returns the request in progress on a connection.
func requestOf(ctx *fasthttp.RequestCtx) *Request { return &connOf(ctx).request }

// everybody is the caller when accounts are disabled.
var everybody = &edgewise.Principal{Kind: "open", Rights: edgewise.AllRights}

// attribute returns ctx with the caller; everybody is nobody in particular.
func (r *Request) attribute(ctx context.Context) context.Context {
	if r.Caller != everybody {
		return edgewise.WithPrincipal(ctx, r.Caller)
	}
	return ctx
}

// WorkContext returns a context for work that outlives the connection, with the caller.
func (r *Request) WorkContext() context.Context {
	return edgewise.WithPrincipal(r.server.base, r.Caller)
}

// Begin returns the context of an inference that begins now: it ends after Config.RequestTimeout, when the client
// leaves, and when the caller is revoked. It carries the caller. End must be called after it.
func (r *Request) Begin(now time.Time) context.Context {
	return r.attribute(r.conn.watch(r.server.span.begin(now)))
}

// BeginStream is Begin for a request whose answer is a stream, written after the handler has returned: its time is that
// from one response to the next. end is called before the stream ends.
func (r *Request) BeginStream() (ctx *frontend.Renewed, end func()) {
	return frontend.NewRenewed(r.attribute(r.conn.watch(r.server.base)), r.server.span.timeout), r.conn.unwatch
}

// Written is an answer that write writes, in a goroutine of its own from now on. It waits while the client reads slowly;
// when the client has gone its writing fails.
func Written(write func(w *bufio.Writer)) io.ReadCloser { return fasthttp.NewStreamReader(write) }

// End ends what Begin began.
func (r *Request) End() { r.conn.unwatch() }

// ReadBody reads the whole body into a block of which the caller becomes the owner. See Server.readBody.
func (r *Request) ReadBody() (*blocks.Block, []byte, error) {
	return r.server.readBody(r.Context(), r.Stream)
}

// SendWritten answers with what write writes meanwhile. Its writer fails once the client has left, or Shutdown has cut the
// connection; Shutdown waits for write. The log says of what it was, when write fails.
func (r *Request) SendWritten(what string, write func(w io.Writer) error) {
	s := r.server
	read, pipe := io.Pipe()
	s.enter()
	go func() {
		defer s.leave()
		err := write(pipe)
		if err != nil {
			s.deps.Log.Error(what+" broke off", "error", err)
		}
		_ = pipe.CloseWithError(err)
	}()
	r.Context().SetBodyStream(read, -1)
}

// Keep holds the memory of the answer until it has been written.
func (r *Request) Keep(b *blocks.Block) { r.conn.keep(b) }

// Client is the client of a request. It stays valid while the answer is written, after the handler has returned.
type Client struct{ conn *conn }

// Client returns the client of the request.
func (r *Request) Client() Client { return Client{r.conn} }

// Revoked tells whether the caller was revoked since the request began.
func (c Client) Revoked() bool { return c.conn.revoked() != nil }

// Left tells whether the client has closed its connection, or its side of it.
func (c Client) Left() bool { return left(c.conn.Conn) }

// CutBody makes a Read of the body that waits end with an error. It may be called at any time, by any goroutine.
func (c Client) CutBody() { _ = c.conn.Conn.SetReadDeadline(time.Now().Add(-time.Second)) }

// Secure tells whether the request came over TLS.
func (r *Request) Secure() bool {
	c, ok := r.conn.Conn.(interface{ Secure() bool })
	return ok && c.Secure()
}

// Address returns the IP address that the request comes from: the client's, where a trusted proxy names it.
func (r *Request) Address() string { return r.address().String() }

func (r *Request) address() netip.Addr {
	at, _ := r.conn.RemoteAddr().(*net.TCPAddr)
	return r.server.proxies.Client(at.AddrPort().Addr().Unmap(), r.forwarded)
}

// fromLoopback tells whether the request comes from the machine itself.
func (r *Request) fromLoopback() bool { return r.address().IsLoopback() }

// CookieName is the name of the session's cookie on this connection.
func (r *Request) CookieName() string {
	if r.Secure() {
		return secureCookie
	}
	return plainCookie
}

// Param returns a segment of the path, decoded; "" when the route has none of that name. It outlives the request.
func (r *Request) Param(key string) string {
	raw := string(r.value(key))
	if text, err := url.PathUnescape(raw); err == nil {
		return text
	}
	return raw // checkParams has refused the request, which is still counted
}

// checkParams refuses a segment of the path that cannot be decoded. Error: Invalid.
func (r *Request) checkParams() error {
	for _, raw := range r.values {
		if bytes.IndexByte(raw, '%') < 0 {
			continue
		}
		if _, err := url.PathUnescape(string(raw)); err != nil {
			return edgewise.Errorf("httpapi.checkParams", edgewise.Invalid, "path segment %.200q: bad percent-encoding", raw)
		}
	}
	return nil
}

// CheckIdentity refuses a body with a content encoding, on routes that take none. Errors: Unsupported.
func (r *Request) CheckIdentity() error {
	encoding := r.Request().Header.Peek(fiber.HeaderContentEncoding)
	if len(encoding) == 0 || equalFold(encoding, "identity") {
		return nil
	}
	r.Set(fiber.HeaderAcceptEncoding, "identity")
	return edgewise.Errorf("httpapi.CheckIdentity", edgewise.Unsupported, "content encoding %.40q is not supported here: "+
		"send the body as it is", bytes.Clone(encoding))
}

// ReadJSON reads a body that may be empty. Errors: Invalid, Unsupported for an encoded body.
func (r *Request) ReadJSON(into any) error {
	if err := r.CheckIdentity(); err != nil {
		return err
	}
	body := r.Request().Body()
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return bodyProblem(err)
	}
	return nil
}

// ReadStrictJSON reads a body that is there and JSON, and in which every member is known. Errors: Invalid, Unsupported
// for an encoded body.
func (r *Request) ReadStrictJSON(into any) error {
	const op = "httpapi.ReadStrictJSON"
	contentType := string(r.Request().Header.ContentType())
	if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != fiber.MIMEApplicationJSON {
		return WithStatus(fasthttp.StatusUnsupportedMediaType, edgewise.Errorf(op, edgewise.Invalid,
			"content type %.80q: want %s", contentType, fiber.MIMEApplicationJSON))
	}
	if err := r.CheckIdentity(); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(r.Request().Body()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return bodyProblem(err)
	}
	if decoder.More() {
		return edgewise.Errorf(op, edgewise.Invalid, "there is more behind the JSON of the body")
	}
	return nil
}

// bodyProblem says what is wrong with a body.
func bodyProblem(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return edgewise.Errorf("httpapi.ReadJSON", edgewise.Invalid, "member %q of the body is a %s: want %s", wrong.Field,
			wrong.Value, wanted(wrong.Type.Kind())).WithField(wrong.Field)
	}
	return edgewise.Errorf("httpapi.ReadJSON", edgewise.Invalid, "the body is not the JSON this route takes: %w", err)
}

// wanted names what JSON has for a kind of Go's.
func wanted(kind reflect.Kind) string {
	switch kind {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number"
}

// WriteJSON answers 200, or the status that was set, with v.
func (r *Request) WriteJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return edgewise.Errorf("httpapi.WriteJSON", edgewise.Internal, "encoding the answer: %w", err)
	}
	r.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return r.Send(text)
}

// Done answers 204, or with err where it is not nil.
func (r *Request) Done(err error) error {
	if err == nil {
		r.Status(fiber.StatusNoContent)
	}
	return err
}
