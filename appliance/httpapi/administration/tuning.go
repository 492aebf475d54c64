package administration

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Tunings find the configuration of models that suits an objective. All methods are safe for concurrent use.
type Tunings interface {
	// Start queues a tuning of a model's live version. Errors: NotFound, Invalid with Field, Conflict, Unsupported, Busy.
	Start(ctx context.Context, model string, ask admin.TuneRequest) (admin.Tuning, error)
	// Get returns the present or the latest tuning, Stop ends it. Errors: NotFound; of Stop also Conflict.
	Get(model string) (admin.Tuning, error)
	Stop(model string) (admin.Tuning, error)
	// List returns the present or the latest tuning and the heads of the reports. Errors: NotFound.
	List(model string) (admin.Tunings, error)
	// Report returns what was found of a version. Errors: NotFound.
	Report(id edgewise.ModelID) (*admin.TuneReport, error)
}

// tuningRoutes are about finding the configuration of a model.
func (h *handlers) tuningRoutes() []httpapi.Route {
	const read, operate, path = edgewise.Read, edgewise.Operate, modelPath + "/tuning"
	return []httpapi.Route{
		{Method: "GET", Path: path, Handler: showModel(h.tuning), Rights: read},
		act("POST", path, "tune.start", operate, h.startTuning),
		act("POST", path+"/stop", "tune.stop", operate, showModel(h.stopTuning)),
		{Method: "GET", Path: modelPath + "/tunings", Handler: showModel(h.tunings), Rights: read},
		{Method: "GET", Path: versionPath + "/tuning", Handler: showModel(h.tuneReport), Rights: read},
	}
}

// tuning shows the present or the latest tuning: GET /api/v1/models/{model}/tuning.
func (h *handlers) tuning(_ *httpapi.Request, id edgewise.ModelID) (admin.Tuning, error) {
	return h.Tunings.Get(id.Name)
}

// tunings shows it with the heads of the reports: GET /api/v1/models/{model}/tunings.
func (h *handlers) tunings(_ *httpapi.Request, id edgewise.ModelID) (admin.Tunings, error) {
	return h.Tunings.List(id.Name)
}

// stopTuning ends it: POST /api/v1/models/{model}/tuning/stop.
func (h *handlers) stopTuning(_ *httpapi.Request, id edgewise.ModelID) (admin.Tuning, error) {
	return h.Tunings.Stop(id.Name)
}

// tuneReport shows what was found of a version: GET /api/v1/models/{model}/versions/{version}/tuning.
func (h *handlers) tuneReport(_ *httpapi.Request, id edgewise.ModelID) (*admin.TuneReport, error) {
	return h.Tunings.Report(id)
}

// startTuning begins one: POST /api/v1/models/{model}/tuning.
func (h *handlers) startTuning(r *httpapi.Request) error {
	id, err := modelID(r)
	if err != nil {
		return err
	}
	var ask admin.TuneRequest
	if err := r.ReadStrictJSON(&ask); err != nil {
		return err
	}
	begun, err := h.Tunings.Start(r.WorkContext(), id.Name, ask)
	if err != nil {
		return err
	}
	r.Detail = begun.Objective.String()
	r.Status(fiber.StatusAccepted)
	return r.WriteJSON(begun)
}
