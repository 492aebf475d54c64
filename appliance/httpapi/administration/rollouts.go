package administration

import (
	"context"
	"fmt"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Rollouts bring versions live by stages. All methods are safe for concurrent use.
type Rollouts interface {
	// List returns the present or the latest rollout of each model, Get that of one. Errors: NotFound.
	List() []admin.Rollout
	Get(model string) (admin.Rollout, error)
	// Start loads the candidate and begins a rollout. Errors: Invalid with Field, NotFound, Conflict, and why the candidate
	// cannot be loaded.
	Start(ctx context.Context, model string, plan admin.RolloutPlan) (admin.Rollout, error)
	// Promote makes the candidate live now, Stop leaves live what is live, Back takes the candidate back. Errors: NotFound,
	// Conflict when the rollout has ended, those of Models.SetLabel.
	Promote(ctx context.Context, model string) (admin.Rollout, error)
	Stop(ctx context.Context, model string) (admin.Rollout, error)
	Back(ctx context.Context, model string) (admin.Rollout, error)
	// Settings say how uploaded versions of a model go live, and Configure changes that. Errors: NotFound; of Configure
	// also Invalid with Field and Conflict.
	Settings(model string) (admin.RolloutSettings, error)
	Configure(model string, s admin.RolloutSettings) (admin.RolloutSettings, error)
}

// rolloutRoutes are about versions that go live by stages.
func (h *handlers) rolloutRoutes() []httpapi.Route {
	const read, operate, path = edgewise.Read, edgewise.Operate, modelPath + "/rollout"
	routes := []httpapi.Route{
		{Method: "GET", Path: "/api/v1/rollouts", Handler: get(h.rollouts), Rights: read},
		{Method: "GET", Path: path, Handler: showModel(h.rollout), Rights: read},
		act("POST", path, "rollout.start", operate, h.startRollout),
		{Method: "GET", Path: path + "/settings", Handler: showModel(h.rolloutSettings), Rights: read},
		act("PUT", path+"/settings", "rollout.settings", operate, showModel(h.changeRolloutSettings)),
	}
	for action, do := range map[string]func(ctx context.Context, model string) (admin.Rollout, error){
		"promote": h.Rollouts.Promote, "stop": h.Rollouts.Stop, "rollback": h.Rollouts.Back,
	} {
		routes = append(routes, act("POST", path+"/"+action, "rollout."+action, operate,
			find(func(ctx context.Context, id edgewise.ModelID) (admin.Rollout, error) { return do(ctx, id.Name) })))
	}
	return routes
}

// rollouts lists the rollouts: GET /api/v1/rollouts.
func (h *handlers) rollouts() []admin.Rollout { return h.Rollouts.List() }

// rollout shows the present or the latest rollout of a model: GET /api/v1/models/{name}/rollout.
func (h *handlers) rollout(_ *httpapi.Request, id edgewise.ModelID) (admin.Rollout, error) {
	return h.Rollouts.Get(id.Name)
}

// rolloutSettings say how uploaded versions go live: GET /api/v1/models/{name}/rollout/settings.
func (h *handlers) rolloutSettings(_ *httpapi.Request, id edgewise.ModelID) (admin.RolloutSettings, error) {
	return h.Rollouts.Settings(id.Name)
}

// changeRolloutSettings changes that: PUT /api/v1/models/{name}/rollout/settings.
func (h *handlers) changeRolloutSettings(
	r *httpapi.Request, id edgewise.ModelID,
) (found admin.RolloutSettings, err error) {
	var ask admin.RolloutSettings
	if err := r.ReadStrictJSON(&ask); err != nil {
		return found, err
	}
	r.Detail = "at once"
	if ask.Plan != nil {
		r.Detail = fmt.Sprintf("%d stages", len(ask.Plan.Stages))
	}
	return h.Rollouts.Configure(id.Name, ask)
}

// startRollout begins a rollout: POST /api/v1/models/{name}/rollout.
func (h *handlers) startRollout(r *httpapi.Request) error {
	id, err := modelID(r)
	if err != nil {
		return err
	}
	var plan admin.RolloutPlan
	if err := r.ReadStrictJSON(&plan); err != nil {
		return err
	}
	r.Detail = "version " + strconv.FormatInt(plan.Version, 10)
	begun, err := h.Rollouts.Start(r.WorkContext(), id.Name, plan)
	if err != nil {
		return err
	}
	r.Status(fiber.StatusCreated)
	return r.WriteJSON(begun)
}
