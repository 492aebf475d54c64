package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
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
	if header.ContentLength() > 0 {
		return fasthttp.RequestConfig{ReadTimeout: s.cfg.BodyTimeout}
	}
	return fasthttp.RequestConfig{}
}

// serve answers one request.
func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	s.enter()
	defer s.leave()
	defer s.recovered(ctx)
	if len(ctx.Request.Header.Peek(refusedHeader)) > 0 {
		s.refuse(ctx, s.refusal(&ctx.Request.Header))
		return
	}
	v := visitOf(ctx)
	err := s.authorize(ctx, v)
	defer s.close(ctx, v)
	if err != nil {
		s.turnAway(ctx, err)
		return
	}
	v.body = s.newStream(ctx)
	if isUpload(&ctx.Request.Header) || isInference(&ctx.Request.Header) {
		s.serveStream(ctx, v.body)
		return
	}
	b, body, err := s.readBody(ctx, v.body)
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	defer b.free()
	ctx.Request.SetBodyRaw(body)
	s.routes(ctx)
	guardHeaders(ctx)
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
	return edgewise.Errorf("httpapi.serve", edgewise.Busy, "the request was refused a moment ago, for a reason that has gone: try again")
}

// serveStream lets the handler read the body, and closes the connection when it did not read all of it.
func (s *Server) serveStream(ctx *fasthttp.RequestCtx, in *stream) {
	if in.reader == nil {
		in.ended, in.err = true, io.EOF
	}
	s.routes(ctx)
	if !in.ended {
		closeAfter(ctx)
	}
}

// refuse answers a request whose body is not read, or not to its end.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, err error) {
	s.writeError(ctx, err)
	closeAfter(ctx)
}

// closeAfter closes the connection after the answer, in a way that lets a client which is still sending read it.
func closeAfter(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	connOf(ctx).linger.Store(true)
}

// connOf returns the connection of a request; all come from a listener.
func connOf(ctx *fasthttp.RequestCtx) *conn { return ctx.Conn().(*conn) }

// recovered turns a panic of a handler into an answer. What the handler had in its hands is unknown: the connection ends.
func (s *Server) recovered(ctx *fasthttp.RequestCtx) {
	cause := recover()
	if cause == nil {
		return
	}
	err := s.panicked(cause, string(ctx.Method()), string(ctx.Path()))
	ctx.Response.Reset()
	s.refuse(ctx, err)
}

// panicked counts and logs a panic and returns what the client is told.
func (s *Server) panicked(cause any, method, path string) error {
	s.panics.Add(1)
	s.deps.Log.Error("request handler panicked", "method", method, "path", path, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	return &edgewise.Error{Op: "httpapi.serve", Kind: edgewise.Internal}
}

// unreadable answers what is not a request, or not one that fits.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	const op = "httpapi.unreadable"
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	ctx.Response.Reset()
	answer := error(edgewise.Errorf(op, edgewise.Invalid, "this is not a readable HTTP request"))
	switch {
	case errors.As(err, &small):
		answer = &special{fasthttp.StatusRequestHeaderFieldsTooLarge, edgewise.Errorf(op, edgewise.TooLarge,
			"the request line and headers may have at most %d bytes", s.cfg.MaxHeaderBytes)}
	case errors.As(err, &timeout) && timeout.Timeout():
		answer = &special{fasthttp.StatusRequestTimeout, edgewise.Errorf(op, edgewise.Deadline,
			"the request did not arrive in time (http.header_timeout %v, http.body_timeout %v)", s.cfg.HeaderTimeout, s.cfg.BodyTimeout)}
	}
	s.refuse(ctx, answer)
}
