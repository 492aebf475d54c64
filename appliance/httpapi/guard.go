package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
)

// With streamed bodies the HTTP library bounds none of them, and executes what a handler leaves unread as the next
// request. So everything goes through serve, which leaves a connection open only when the body was read to its end.

// refusedHeader marks a request that headerReceived has refused. A client that sends it itself is refused too.
const refusedHeader = "Edgewise-Refused"

// headerReceived runs when the headers are read and before anything of the body is read or asked for. What it refuses
// gets no "100 Continue", and its body is hidden from the library so that the answer does not wait for it.
func (s *Server) headerReceived(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if s.admit(header) != nil {
		header.Del(fiber.HeaderExpect)
		header.SetContentLength(0)
		header.Set(refusedHeader, "1")
		return fasthttp.RequestConfig{}
	}
	switch length := header.ContentLength(); {
	case length == -1: // chunked
		header.SetContentLength(rawLength)
		return fasthttp.RequestConfig{ReadTimeout: s.cfg.BodyTimeout, MaxRequestBodySize: 1}
	case length > 0:
		return fasthttp.RequestConfig{ReadTimeout: s.cfg.BodyTimeout}
	}
	return fasthttp.RequestConfig{}
}

// serve answers one request.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	client := connOf(ctx)
	s.enter()
	defer func() { client.others = s.leave() }()
	defer s.endWhenLeft(ctx)
	defer s.recovered(ctx)
	if s.deps.Log.Enabled(ctx, slog.LevelDebug) {
		s.deps.Log.Debug("request", "method", string(ctx.Method()), "path", string(ctx.Path()))
	}
	r := &client.request
	*r = Request{
		match: s.router.find(&ctx.Request.Header), origin: foreignOrigin(&ctx.Request.Header), conn: client, server: s,
	}
	if len(s.proxies) > 0 {
		for _, value := range ctx.Request.Header.PeekAll(frontend.ForwardedFor) {
			r.forwarded = append(r.forwarded, string(value))
		}
	}
	if len(Field(&ctx.Request.Header, refusedHeader)) > 0 {
		s.refuse(ctx, s.refusal(&ctx.Request.Header))
		return
	}
	if s.preflight(ctx, r) {
		if ctx.RequestBodyStream() != nil && ctx.Request.Header.ContentLength() != 0 {
			closeAfter(ctx)
		}
		return
	}
	err := s.authorize(ctx, r)
	defer s.close(ctx, r)
	defer s.allowOrigin(ctx, r)
	if err != nil {
		s.turnAway(ctx, err)
		return
	}
	client.hold(r.Caller)
	s.openStream(ctx, r)
	if r.route.Stream {
		s.answer(ctx, r)
		return
	}
	b, body, err := s.readBody(ctx, r.Stream)
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	defer b.Free()
	ctx.Request.SetBodyRaw(body)
	s.answer(ctx, r)
}

// answer runs the handler of a request, and closes the connection when the body was not read to its end.
func (s *Server) answer(ctx *fasthttp.RequestCtx, r *Request) {
	r.Ctx = s.app.AcquireCtx(ctx)
	defer s.app.ReleaseCtx(r.Ctx)
	err := r.checkParams()
	if err == nil {
		err = r.route.Handler(r)
	}
	if err != nil {
		if why := r.conn.revoked(); why != nil {
			err = why
		}
		s.writeError(ctx, err)
	}
	if r.route.isAdministration() {
		ctx.Response.Header.Set(fiber.HeaderCacheControl, "no-store")
		ctx.Response.Header.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	}
	if !r.Stream.ended {
		closeAfter(ctx)
	}
}

// turnAway answers who may not do this. Where there is no body left to read the connection stays.
func (s *Server) turnAway(ctx *fasthttp.RequestCtx, err error) {
	if ctx.Request.Header.ContentLength() == 0 || ctx.RequestBodyStream() == nil {
		s.writeError(ctx, err)
		return
	}
	s.refuse(ctx, err)
}

// refusal says why a marked request was refused. Its body is hidden, so it stays refused when the reason has gone
// meanwhile, as a full disk may.
func (s *Server) refusal(header *fasthttp.RequestHeader) error {
	if err := s.admit(header); err != nil {
		return err
	}
	return edgewise.Errorf("httpapi.serve", edgewise.Busy, "the request was refused a moment ago, for a reason that has "+
		"gone: try again")
}

// refuse answers a request whose body is not read, or not to its end.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, err error) {
	s.writeError(ctx, err)
	closeAfter(ctx)
}

// endWhenLeft ends a connection with its answer after Leave.
func (s *Server) endWhenLeft(ctx *fasthttp.RequestCtx) {
	if s.leaving.Load() {
		closeAfter(ctx)
	}
}

// closeAfter closes the connection after the answer, in a way that lets a client which is still sending read it.
func closeAfter(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	connOf(ctx).linger.Store(true)
}

// connOf returns the connection of a request; all come from a listener.
func connOf(ctx *fasthttp.RequestCtx) *conn { return ctx.Conn().(*conn) }

// recovered turns a panic of a handler into an answer. What the handler had in its hands is unknown: the connection
// ends.
func (s *Server) recovered(ctx *fasthttp.RequestCtx) {
	cause := recover()
	if cause == nil {
		return
	}
	err := s.Panicked(cause, string(ctx.Method()), string(ctx.Path()))
	ctx.Response.Reset()
	s.refuse(ctx, err)
}

// Panicked counts and logs a panic and returns what the client is told.
func (s *Server) Panicked(cause any, method, path string) error {
	s.panics.Add(1)
	s.deps.Log.Error("request handler panicked", "method", method, "path", path, "panic", fmt.Sprint(cause), "stack",
		string(debug.Stack()))
	return &edgewise.Error{Op: "httpapi.serve", Kind: edgewise.Internal}
}

// unreadable answers what is not a request, or not one that fits.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	const op = "httpapi.unreadable"
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	ctx.Response.Reset()
	requestOf(ctx).Counted = true // what it was meant for is not known
	answer := error(edgewise.Errorf(op, edgewise.Invalid, "this is not a readable HTTP request"))
	switch {
	case errors.As(err, &small):
		answer = WithStatus(fasthttp.StatusRequestHeaderFieldsTooLarge, edgewise.Errorf(op, edgewise.TooLarge,
			"the request line and headers may have at most %d bytes", s.cfg.MaxHeaderBytes))
	case errors.As(err, &timeout) && timeout.Timeout():
		answer = WithStatus(fasthttp.StatusRequestTimeout, edgewise.Errorf(op, edgewise.Deadline,
			"the request did not arrive in time (http.header_timeout %v, http.body_timeout %v)", s.cfg.HeaderTimeout,
			s.cfg.BodyTimeout))
	}
	s.refuse(ctx, answer)
}
