package inference

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// The headers of a W3C trace context.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

// traceSettings answers GET /v2/trace/setting and GET /v2/models/{name}/trace/setting.
func (h *Handlers) traceSettings(r *httpapi.Request) error {
	model, err := h.tracedModel(r)
	if err != nil {
		return err
	}
	return r.WriteJSON(kserve.TraceSettings(h.Tracing.Settings(model)))
}

// tracedModel returns the model in the path, if there is one.
func (h *Handlers) tracedModel(r *httpapi.Request) (string, error) {
	if r.Param("model") == "" {
		return "", nil
	}
	id, err := h.ModelID(r)
	if err != nil {
		return "", err
	}
	if h.Engine.VersionReady(id) != nil {
		err = kserve.NotTraced(id)
	}
	return id.Name, err
}

// changeTraceSettings answers POST of the same paths with the settings after the change.
func (h *Handlers) changeTraceSettings(r *httpapi.Request) error {
	model, err := h.tracedModel(r)
	if err != nil {
		return err
	}
	var members map[string]any
	if err := r.ReadJSON(&members); err != nil {
		return err
	}
	change, err := kserve.ParseTraceChange(members, h.Tracing.Settings(model).Mode)
	if err != nil {
		return err
	}
	if err := h.Tracing.Change(model, change); err != nil {
		return err
	}
	return r.WriteJSON(kserve.TraceSettings(h.Tracing.Settings(model)))
}

// trace begins the trace of an inference; nil when it is not traced. The answer then names the span of the request.
func (h *Handlers) trace(r *httpapi.Request, req *edgewise.Request) edgewise.TracedRequest {
	if h.Tracing == nil || !h.Tracing.On() {
		return nil
	}
	t := h.Tracing.Begin(edgewise.TraceStart{
		Frontend: "HTTP", Model: req.Model, ID: req.ID, Received: r.Context().Time(),
		Parent: string(r.Request().Header.Peek(traceParent)), State: string(r.Request().Header.Peek(traceState)),
	})
	if t != nil {
		if parent := t.Parent(); parent != "" {
			r.Set(traceParent, parent)
		}
	}
	return t
}

// logSettings answers GET /v2/logging.
func (h *Handlers) logSettings(r *httpapi.Request) error { return r.WriteJSON(h.Logging.Settings()) }

// changeLogSettings answers POST /v2/logging with the settings after the change. Members that are null or unknown
// change nothing, and neither does a body with anything wrong.
func (h *Handlers) changeLogSettings(r *httpapi.Request) error {
	var change kserve.LogChange
	if err := r.ReadJSON(&change); err != nil {
		return err
	}
	settings, err := h.Logging.Change(change)
	if err != nil {
		return err
	}
	return r.WriteJSON(settings)
}
