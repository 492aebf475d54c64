package administration

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Capacities answer what the box can carry. All methods are safe for concurrent use.
type Capacities interface {
	// Ask answers whether the box carries models at rates. Errors: Invalid with Field, NotFound, Unavailable, Unsupported, Busy.
	Ask(ctx context.Context, ask admin.CapacityRequest) (*admin.Capacity, error)
}

// capacityRoutes are about what the box can carry.
func (h *handlers) capacityRoutes() []httpapi.Route {
	return []httpapi.Route{act("POST", "/api/v1/capacity", "capacity.ask", edgewise.Operate, h.capacity)}
}

// capacity answers whether the box carries models at rates: POST /api/v1/capacity.
func (h *handlers) capacity(r *httpapi.Request) error {
	var ask admin.CapacityRequest
	if err := r.ReadStrictJSON(&ask); err != nil {
		return err
	}
	found, err := h.Capacities.Ask(r.WorkContext(), ask)
	if err != nil {
		return err
	}
	r.Detail = found.Sentence
	return r.WriteJSON(found)
}
