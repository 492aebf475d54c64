package administration

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Fleet makes the box follow the document of its fleet. All methods are safe for concurrent use.
type Fleet interface {
	// Status is what the box was told, what it did and what failed.
	Status() admin.Fleet
	// Diff says what a document would want of the box. Errors: Invalid, TooLarge.
	Diff(document string) (admin.FleetDifference, error)
	// Poll makes the box ask its source now. Errors: Conflict where it has none.
	Poll() error
	// Forget makes the box forget the document that it follows. Errors: those of the box's documents.
	Forget() error
}

// fleetRoutes are about the fleet that the box is in.
func (h *handlers) fleetRoutes() []httpapi.Route {
	const path = "/api/v1/fleet"
	return []httpapi.Route{
		{Method: "GET", Path: path, Handler: get(h.Fleet.Status), Rights: edgewise.Read},
		act("DELETE", path, "fleet.forget", edgewise.Admin, run(func(*httpapi.Request) error { return h.Fleet.Forget() })),
		act("POST", path+"/poll", "fleet.poll", edgewise.Operate, run(func(*httpapi.Request) error { return h.Fleet.Poll() })),
		{Method: "POST", Path: path + "/diff", Handler: change(h.fleetDiff), Rights: edgewise.Read},
	}
}

// fleetDiff says what a document would change: POST /api/v1/fleet/diff.
func (h *handlers) fleetDiff(_ *httpapi.Request, ask admin.FleetQuestion) (admin.FleetDifference, error) {
	return h.Fleet.Diff(ask.Document)
}
