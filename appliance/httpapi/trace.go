package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// The headers of a W3C trace context.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

// traceSettings answers GET /v2/trace/setting and GET /v2/models/{name}/trace/setting.
func (s *Server) traceSettings(c *fiber.Ctx) error {
	model, err := s.tracedModel(c)
	if err != nil {
		return err
	}
	return writeJSON(c, kserve.TraceSettings(s.deps.Tracing.Settings(model)))
}

// tracedModel returns the model in the path, if there is one.
func (s *Server) tracedModel(c *fiber.Ctx) (string, error) {
	if rawParam(c, "model") == "" {
		return "", nil
	}
	id, err := s.inferenceID(c)
	if err != nil {
		return "", err
	}
	if s.deps.Engine.VersionReady(id) != nil {
		err = kserve.NotTraced(id)
	}
	return id.Name, err
}

// changeTraceSettings answers POST of the same paths with the settings after the change.
func (s *Server) changeTraceSettings(c *fiber.Ctx) error {
	model, err := s.tracedModel(c)
	if err != nil {
		return err
	}
	var members map[string]any
	if err := readJSON(c, &members); err != nil {
		return err
	}
	change, err := kserve.ParseTraceChange(members, s.deps.Tracing.Settings(model).Mode)
	if err != nil {
		return err
	}
	if err := s.deps.Tracing.Change(model, change); err != nil {
		return err
	}
	return writeJSON(c, kserve.TraceSettings(s.deps.Tracing.Settings(model)))
}

// trace begins the trace of an inference; nil when it is not traced. The answer then names the span of the request.
func (s *Server) trace(c *fiber.Ctx, req *edgewise.Request) edgewise.TracedRequest {
	if s.deps.Tracing == nil || !s.deps.Tracing.On() {
		return nil
	}
	t := s.deps.Tracing.Begin(edgewise.TraceStart{
		Frontend: "HTTP", Model: req.Model, ID: req.ID, Received: c.Context().Time(),
		Parent: string(c.Request().Header.Peek(traceParent)), State: string(c.Request().Header.Peek(traceState)),
	})
	if t != nil {
		if parent := t.Parent(); parent != "" {
			c.Set(traceParent, parent)
		}
	}
	return t
}
