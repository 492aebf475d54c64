package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/apistatus"
)

// retryAfter is the advice, in seconds, to a client that is refused because the box is busy.
const retryAfter = 1

// WithStatus returns err with a status of HTTP that fits better than that of its kind.
func WithStatus(status int, err error) error { return &special{status, err} }

// special is an error with a status of its own.
type special struct {
	status int
	err    error
}

func (e *special) Error() string { return e.err.Error() }
func (e *special) Unwrap() error { return e.err }

// ErrorBody is what clients may know of an error.
func ErrorBody(err error) kserve.ErrorBody {
	body := kserve.NewErrorBody(err)
	body.Error = apistatus.Message(err)
	return body
}

// writeError answers with what clients may know of err, and logs the rest where there is any. What clients did wrong is
// logged as a detail.
func (s *Server) writeError(ctx *fasthttp.RequestCtx, err error) {
	s.countRefusal(ctx, err)
	kind := edgewise.KindOf(err)
	status, body := Describe(err)
	level := slog.LevelDebug
	if apistatus.Of(kind).HTTP == fasthttp.StatusInternalServerError {
		level = slog.LevelError
	}
	if s.deps.Log.Enabled(ctx, level) {
		s.deps.Log.Log(ctx, level, "request failed", "method", string(ctx.Method()), "path", string(ctx.Path()),
			"kind", kind.String(), "error", err)
	}
	if apistatus.Of(kind).Retry {
		ctx.Response.Header.Set(fiber.HeaderRetryAfter, strconv.Itoa(retryAfter))
	}
	if own, ok := errors.AsType[*edgewise.Error](err); ok && own.Retry > 0 {
		ctx.Response.Header.Set(fiber.HeaderRetryAfter, strconv.FormatInt(int64(math.Ceil(own.Retry.Seconds())), 10))
	}
	if kind == edgewise.Unauthenticated {
		ctx.Response.Header.Set(fiber.HeaderWWWAuthenticate, "Bearer")
	}
	// as Triton's clients know it; the body's code says which it is
	route := s.router.find(&ctx.Request.Header).route
	if status == fasthttp.StatusRequestEntityTooLarge && route.isProtocol() {
		status = fasthttp.StatusBadRequest
	}
	if route.Fault != nil {
		writeFault(ctx, status, route.Fault(status, body))
		return
	}
	writeFault(ctx, status, body)
}

// Describe returns the status of an answer that is an error, and what clients may know of it.
func Describe(err error) (status int, body kserve.ErrorBody) {
	body, status = ErrorBody(err), apistatus.Of(edgewise.KindOf(err)).HTTP
	if body.Reason == "rate_limited" {
		status = fasthttp.StatusTooManyRequests
	}
	if better, ok := errors.AsType[*special](err); ok {
		status = better.status
	}
	return status, body
}

// countRefusal counts an inference that ends with err before the engine has received it.
func (s *Server) countRefusal(ctx *fasthttp.RequestCtx, err error) {
	r := requestOf(ctx)
	if r.Counted || r.route == nil || r.route.Refused == nil {
		return
	}
	r.Counted = true
	r.route.Refused(r.attribute(context.Background()), r, time.Since(ctx.Time()), err)
}

func writeFault(ctx *fasthttp.RequestCtx, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		text = []byte(`{"error":"internal error","code":"internal"}`) // strings and numbers always marshal
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType(fiber.MIMEApplicationJSON)
	ctx.SetBody(text)
}

// unrouted answers what the table has no route for.
func (s *Server) unrouted(r *Request) error {
	ctx := r.Context()
	if allowed := s.router.allowed(r.path); allowed != "" {
		ctx.Response.Header.Set(fiber.HeaderAllow, allowed)
		writeFault(ctx, fiber.StatusMethodNotAllowed, kserve.ErrorBody{Error: "Method Not Allowed"})
		return nil
	}
	writeFault(ctx, fiber.StatusNotFound, kserve.ErrorBody{Error: "Not Found"})
	return nil
}
