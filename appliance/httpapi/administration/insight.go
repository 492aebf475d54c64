package administration

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Insights say what bounds versions, and what the processor does at most. All methods are safe for concurrent use.
type Insights interface {
	// Get returns what was measured of the processor. Error: NotFound.
	Get() (*admin.Roofline, error)
	// Measure measures it, when no client sends requests. Errors: Busy.
	Measure(ctx context.Context) (*admin.Roofline, error)
	// Bound says what bounds a ready version. Errors: NotFound, Unavailable.
	Bound(ctx context.Context, id edgewise.ModelID) (*admin.Bound, error)
}

// insightRoutes are about what bounds models.
func (h *handlers) insightRoutes() []httpapi.Route {
	const path = "/api/v1/roofline"
	return []httpapi.Route{
		{Method: "GET", Path: path, Handler: show(h.roofline), Rights: edgewise.Read},
		act("POST", path, "roofline.measure", edgewise.Operate, show(h.measureRoofline)),
		{Method: "GET", Path: versionPath + "/bound", Handler: find(h.Insights.Bound), Rights: edgewise.Read},
	}
}

// roofline shows what was measured of the processor: GET /api/v1/roofline.
func (h *handlers) roofline(*httpapi.Request) (*admin.Roofline, error) { return h.Insights.Get() }

// measureRoofline measures it: POST /api/v1/roofline.
func (h *handlers) measureRoofline(r *httpapi.Request) (*admin.Roofline, error) {
	return h.Insights.Measure(r.WorkContext())
}
