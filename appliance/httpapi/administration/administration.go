// Package administration answers the routes of /api/v1: stored models, uploads, drafts, accounts, the appliance itself
// and its system.
package administration

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/activity"
	"github.com/edgewise-ai/edgewise/appliance/alerts"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/history"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/uploads"
)

// Deps are the parts that the handlers use. Statuses, Models and Decode are required.
type Deps struct {
	// Statuses returns the status of every version that was ever loaded.
	Statuses func() []edgewise.Status
	Models   Models
	Formats  edgewise.Formats // of models; an uploaded file whose request names none has the first one's name
	// Decode reads the body of an inference request to a model.
	Decode func(r *httpapi.Request, id edgewise.ModelID, body []byte) (*kserve.InferRequest, error)

	// Accounts has people and keys. Nil: everybody may do everything, and the routes about them are not there.
	Accounts *auth.Accounts
	// Open says that everybody may do everything though there are accounts.
	Open bool
	// Box describes the box and changes its settings. Nil: the routes about it are not there.
	Box Box
	// Uploads takes files in pieces, Jobs are what is made of them. Nil: the routes about them are not there.
	Uploads *uploads.Uploads
	Jobs    Jobs
	// Catalog and Editor are what the page shows of models and makes of them. Nil: the routes about them are not there.
	Catalog Catalog
	Editor  Editor
	// Goldens are requests with expected answers. Nil: the routes about them are not there.
	Goldens Goldens
	// Hub tells what happens; History, Logs and Requests are the last hour. Nil: the routes about them are not there.
	Hub      *activity.Hub
	History  *activity.History
	Logs     *activity.Logs
	Requests *activity.Requests
	// Stored returns up to 31 days. It is there when Hub is.
	Stored func(history.Query) (admin.StoredHistory, error)
	// Alerts has rules and whom they tell. Nil: the routes about them are not there.
	Alerts *alerts.Alerts
	// Recordings are recorded requests. Nil: the routes about them are not there.
	Recordings Recordings
	// Registries are OCI registries. Nil: the routes about them are not there.
	Registries Registries
	// Rollouts bring versions live by stages. Nil: the routes about them are not there.
	Rollouts Rollouts
	// Tunings find the configuration of models that suits an objective. Nil: the routes about them are not there.
	Tunings Tunings
	// Insights say what bounds versions. Nil: the routes about them are not there.
	Insights Insights
	// Capacities answer what the box can carry. Nil: the route about it is not there.
	Capacities Capacities
	// Fleet follows the document of a fleet. Nil: the routes about it are not there.
	Fleet Fleet
	// System changes the system that the box runs on. Nil: the routes about it are not there.
	System System
}

type handlers struct {
	*httpapi.Server
	Deps
}

// Register adds the routes of the administration to a server.
func Register(s *httpapi.Server, deps Deps) {
	h := &handlers{s, deps}
	for _, part := range []struct {
		there  bool
		routes func() []httpapi.Route
	}{
		{true, h.modelRoutes},
		{true, h.sessionRoutes},
		{h.Accounts != nil, h.accountRoutes},
		{h.Box != nil, h.boxRoutes},
		{h.System != nil, h.systemRoutes},
		{h.Uploads != nil, h.uploadRoutes},
		{h.Catalog != nil, h.catalogRoutes},
		{h.Editor != nil, h.editorRoutes},
		{h.Goldens != nil, h.goldenRoutes},
		{h.Hub != nil, h.activityRoutes},
		{h.Alerts != nil, h.alertRoutes},
		{h.Recordings != nil, h.recordingRoutes},
		{h.Registries != nil, h.registryRoutes},
		{h.Rollouts != nil, h.rolloutRoutes},
		{h.Tunings != nil, h.tuningRoutes},
		{h.Insights != nil, h.insightRoutes},
		{h.Capacities != nil, h.capacityRoutes},
		{h.Fleet != nil, h.fleetRoutes},
	} {
		if part.there {
			s.Handle(part.routes()...)
		}
	}
}

// act is a route that changes something, under the name that the change has in the audit log.
func act(method, path, action string, rights edgewise.Rights, handler httpapi.Handler) httpapi.Route {
	return httpapi.Route{Method: method, Path: path, Action: action, Rights: rights, Handler: handler}
}

// confirmed is a route that a person must confirm with the password.
func confirmed(r httpapi.Route) httpapi.Route {
	r.Confirm = true
	return r
}

// The adapters below make a Handler of a function that does the work of a route.

// get answers with what look returns.
func get[T any](look func() T) httpapi.Handler {
	return func(r *httpapi.Request) error { return r.WriteJSON(look()) }
}

// show answers with what look returns for a request.
func show[T any](look func(r *httpapi.Request) (T, error)) httpapi.Handler {
	return func(r *httpapi.Request) error {
		found, err := look(r)
		if err != nil {
			return err
		}
		return r.WriteJSON(found)
	}
}

// change hands the JSON body of a request to do and answers with what it returns.
func change[Body, T any](do func(r *httpapi.Request, ask Body) (T, error)) httpapi.Handler {
	return show(func(r *httpapi.Request) (found T, err error) {
		var ask Body
		if err := r.ReadStrictJSON(&ask); err != nil {
			return found, err
		}
		return do(r, ask)
	})
}

// run answers 204 once do has succeeded.
func run(do func(r *httpapi.Request) error) httpapi.Handler {
	return func(r *httpapi.Request) error { return r.Done(do(r)) }
}

// runWith hands the JSON body of a request to do and answers 204 once it has succeeded.
func runWith[Body any](do func(r *httpapi.Request, ask Body) error) httpapi.Handler {
	return run(func(r *httpapi.Request) error {
		var ask Body
		if err := r.ReadStrictJSON(&ask); err != nil {
			return err
		}
		return do(r, ask)
	})
}

// showModel answers with what look returns for the model, and the version if there is one, in the path.
func showModel[T any](look func(r *httpapi.Request, id edgewise.ModelID) (T, error)) httpapi.Handler {
	return show(func(r *httpapi.Request) (found T, err error) {
		id, err := modelID(r)
		if err != nil {
			return found, err
		}
		return look(r, id)
	})
}

// runModel answers 204 once do has succeeded for the model, and the version if there is one, in the path.
func runModel(do func(r *httpapi.Request, id edgewise.ModelID) error) httpapi.Handler {
	return run(func(r *httpapi.Request) error {
		id, err := modelID(r)
		if err != nil {
			return err
		}
		return do(r, id)
	})
}

// find answers with what look returns for the model, and the version if there is one, in the path.
func find[T any](look func(ctx context.Context, id edgewise.ModelID) (T, error)) httpapi.Handler {
	return showModel(func(r *httpapi.Request, id edgewise.ModelID) (T, error) { return look(r.WorkContext(), id) })
}

// list answers with what look returns for the caller.
func list[T any](look func(p *edgewise.Principal) []T) httpapi.Handler {
	return func(r *httpapi.Request) error { return r.WriteJSON(look(r.Caller)) }
}

// drop answers 204 once do has succeeded for what a parameter of the path names.
func drop(parameter string, do func(name string) error) httpapi.Handler {
	return run(func(r *httpapi.Request) error {
		r.Target = r.Param(parameter)
		return do(r.Target)
	})
}

// dropOwn is drop of what belongs to the caller.
func dropOwn(do func(p *edgewise.Principal, id string) error) httpapi.Handler {
	return run(func(r *httpapi.Request) error {
		r.Target = r.Param("id")
		return do(r.Caller, r.Target)
	})
}

// modelID returns the model, and the version if the path has one. Errors: Invalid, naming the rule that is broken.
func modelID(r *httpapi.Request) (id edgewise.ModelID, err error) {
	id.Name = r.Param("model")
	if err := edgewise.CheckName(id.Name); err != nil {
		return edgewise.ModelID{}, edgewise.Errorf("administration.modelID", edgewise.Invalid, "%w", err)
	}
	if version := r.Param("version"); version != "" {
		id.Version, err = parseVersion(version)
	}
	return id, err
}

func parseVersion(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || text[0] == '+' {
		return 0, edgewise.Errorf("administration.parseVersion", edgewise.Invalid,
			"version %.40q: want a number from 1 to %d", text, int64(math.MaxInt64))
	}
	return n, nil
}

func checkLabel(label string) error {
	if err := edgewise.CheckLabel(label); err != nil {
		return edgewise.Errorf("administration.checkLabel", edgewise.Invalid, "%w", err)
	}
	return nil
}

// queryVersion returns the version in a query parameter. Errors: Invalid, naming the parameter.
func queryVersion(r *httpapi.Request, name string) (int64, error) {
	n, err := parseVersion(r.Query(name))
	if err != nil {
		return 0, edgewise.Errorf("administration.queryVersion", edgewise.Invalid, "query parameter %s: %w", name, err)
	}
	return n, nil
}

// Bounds of a page of a list.
const (
	defaultPage = 100
	maxPage     = 1000
)

// queryLimit returns how many entries of a list are wanted.
func queryLimit(r *httpapi.Request, otherwise int64) (int, error) {
	n, err := queryNumber(r, "limit", otherwise, 1, maxPage)
	return int(n), err
}

// queryNumber reads a number of the query, otherwise when it is not there.
func queryNumber(r *httpapi.Request, name string, otherwise, least, most int64) (int64, error) {
	text := r.Query(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, edgewise.Errorf("administration.queryNumber", edgewise.Invalid, "query parameter %s is %.40q: want a number "+
			"from %d to %d", name, strings.Clone(text), least, most)
	}
	return n, nil
}
