package administration

import (
	"context"
	"path"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Models is what the routes about stored models need of the registry. All methods are safe for concurrent use. What they
// return is shared and not modified.
type Models interface {
	// Room tells whether an upload of size bytes could begin now, before its body is asked for. Errors: Exhausted.
	Room(size int64) error
	// Push stores a new version and, with promote, points the label live to it. It pulls the files of up, and the
	// version exists only if up.Next ended in io.EOF. Errors: those of up, Invalid, TooLarge, Exists, Unsupported,
	// Exhausted, Corrupt.
	Push(ctx context.Context, up edgewise.Upload, promote bool) (*admin.Pushed, error)
	// Records returns every model, by name.
	Records() []*edgewise.Record
	// Record returns one model. Errors: NotFound.
	Record(name string) (*edgewise.Record, error)
	// SetLabel points a label to a version, making it if need be. Errors: NotFound, Invalid.
	SetLabel(ctx context.Context, name, label string, version int64) (admin.LabelMove, error)
	// Rollback points a label to where it pointed before. Errors: NotFound, Conflict when there is nowhere to go.
	Rollback(ctx context.Context, name, label string) (admin.LabelMove, error)
	// RemoveLabel forgets a label. Errors: NotFound, Conflict for the label live.
	RemoveLabel(ctx context.Context, name, label string) error
	// DeleteVersion deletes one version. Errors: NotFound, Conflict while a label points to it.
	DeleteVersion(ctx context.Context, id edgewise.ModelID) error
	// DeleteModel deletes a model with all its versions. Errors: NotFound.
	DeleteModel(ctx context.Context, name string) error
	// Rename gives a model another name and waits until it is ready under that. Errors: NotFound, Invalid, Exists,
	// Conflict while an ensemble pins it.
	Rename(ctx context.Context, name, to string) error
	// Inspect returns what is known of a version's files. Errors: NotFound, Unsupported.
	Inspect(ctx context.Context, id edgewise.ModelID) (*edgewise.Inspection, error)
	// Propose returns pipelines that a version may be meant for, the likeliest first. Errors: NotFound.
	Propose(ctx context.Context, id edgewise.ModelID) ([]admin.Proposal, error)
}

// Paths of a model and of one of its versions.
const (
	modelPath   = "/api/v1/models/:model"
	versionPath = modelPath + "/versions/:version"
)

// modelRoutes are about stored models, their versions and labels.
func (h *handlers) modelRoutes() []httpapi.Route {
	const read, operate = edgewise.Read, edgewise.Operate
	return []httpapi.Route{
		document("openapi.yaml"), document("inference.yaml"),
		document("inference/grpc_service.proto"), document("inference/model_config.proto"),
		{Method: "GET", Path: "/api/v1/models", Handler: get(h.models), Rights: read},
		{Method: "GET", Path: modelPath, Handler: showModel(h.model), Rights: read},
		act("DELETE", modelPath, "model.delete", operate, runModel(h.deleteModel)),
		{
			Method: "POST", Path: modelPath + "/versions", Handler: h.push, Rights: operate, Action: "version.push",
			Body: httpapi.VersionBody, Stream: true, Room: h.Models.Room,
		},
		{
			Method: "DELETE", Path: versionPath, Handler: runModel(h.deleteVersion), Rights: operate,
			Action: "version.delete",
		},
		{Method: "GET", Path: versionPath + "/inspection", Handler: find(h.Models.Inspect), Rights: read},
		{Method: "GET", Path: versionPath + "/proposals", Handler: showModel(h.proposals), Rights: read},
		act("PUT", modelPath+"/labels/:label", "label.set", operate, showModel(h.setLabel)),
		act("DELETE", modelPath+"/labels/:label", "label.remove", operate, runModel(h.removeLabel)),
		act("POST", modelPath+"/rename", "model.rename", operate, showModel(h.rename)),
		act("POST", modelPath+"/rollback", "label.rollback", operate, showModel(h.rollback)),
	}
}

// document answers with one of api.Documents: GET /api/v1/openapi.yaml and its like.
func document(file string) httpapi.Route {
	return httpapi.Route{
		Method: "GET", Path: "/api/v1/" + path.Base(file), Public: true,
		Handler: func(r *httpapi.Request) error {
			text, err := api.Documents.ReadFile(file)
			if err != nil {
				return edgewise.Errorf("administration.document", edgewise.Internal, "%w", err)
			}
			kind := fiber.MIMETextPlainCharsetUTF8
			if path.Ext(file) == ".yaml" {
				kind = "application/yaml"
			}
			r.Set(fiber.HeaderContentType, kind)
			return r.Send(text)
		},
	}
}

// models lists what is stored: GET /api/v1/models.
func (h *handlers) models() []admin.Model {
	records, statuses := h.Models.Records(), h.Statuses()
	models := make([]admin.Model, len(records))
	for i, r := range records {
		models[i] = h.noted(admin.NewModel(r, statuses, h.Formats))
	}
	return models
}

// model shows one model with its versions and labels: GET /api/v1/models/{name}.
func (h *handlers) model(_ *httpapi.Request, id edgewise.ModelID) (admin.Model, error) {
	record, err := h.Models.Record(id.Name)
	if err != nil {
		return admin.Model{}, err
	}
	return h.noted(admin.NewModel(record, h.Statuses(), h.Formats)), nil
}

// noted adds what people wrote about a model and its versions.
func (h *handlers) noted(m admin.Model) admin.Model {
	if h.Catalog == nil {
		return m
	}
	m.Notes = h.Catalog.Notes(edgewise.ModelID{Name: m.Name})
	for i := range m.Versions {
		m.Versions[i].Notes = h.Catalog.Notes(edgewise.ModelID{Name: m.Name, Version: m.Versions[i].Version})
	}
	return m
}

// proposals lists pipelines that a version may be meant for: GET /api/v1/models/{name}/versions/{version}/proposals.
func (h *handlers) proposals(r *httpapi.Request, id edgewise.ModelID) ([]admin.Proposal, error) {
	list, err := h.Models.Propose(r.WorkContext(), id)
	return append([]admin.Proposal{}, list...), err
}

// setLabel points a label to a version: PUT /api/v1/models/{name}/labels/{label} with {"version": N}.
func (h *handlers) setLabel(r *httpapi.Request, id edgewise.ModelID) (set admin.LabelMove, err error) {
	label := r.Param("label")
	if err := checkLabel(label); err != nil {
		return set, err
	}
	var ask admin.SetLabel
	if err := r.ReadJSON(&ask); err != nil {
		return set, err
	}
	if ask.Version <= 0 {
		return set, edgewise.Errorf("administration.setLabel", edgewise.Invalid,
			`the body names no version: want {"version": N} with N of 1 or more`)
	}
	r.Detail = "label " + label + " to version " + strconv.FormatInt(ask.Version, 10)
	return h.Models.SetLabel(r.WorkContext(), id.Name, label, ask.Version)
}

// removeLabel forgets a label: DELETE /api/v1/models/{name}/labels/{label}.
func (h *handlers) removeLabel(r *httpapi.Request, id edgewise.ModelID) error {
	label := r.Param("label")
	if err := checkLabel(label); err != nil {
		return err
	}
	return h.Models.RemoveLabel(r.WorkContext(), id.Name, label)
}

// rollback points a label to where it pointed before: POST /api/v1/models/{name}/rollback, with an empty body or
// {"label": "live"}.
func (h *handlers) rollback(r *httpapi.Request, id edgewise.ModelID) (set admin.LabelMove, err error) {
	ask := admin.Rollback{Label: edgewise.LiveLabel}
	if err := r.ReadJSON(&ask); err != nil {
		return set, err
	}
	if err := checkLabel(ask.Label); err != nil {
		return set, err
	}
	return h.Models.Rollback(r.WorkContext(), id.Name, ask.Label)
}

// rename gives a model another name: POST /api/v1/models/{name}/rename with {"name": "other"}.
func (h *handlers) rename(r *httpapi.Request, id edgewise.ModelID) (m admin.Model, err error) {
	const op = "administration.rename"
	var ask admin.Rename
	if err := r.ReadJSON(&ask); err != nil {
		return m, err
	}
	if err := edgewise.CheckName(ask.Name); err != nil {
		return m, edgewise.Errorf(op, edgewise.Invalid, "%w", err).WithField("name")
	}
	if !r.Caller.MayName(ask.Name) {
		return m, edgewise.Errorf(op, edgewise.Denied, "%s is bound to the models %s",
			r.Caller.Actor(), strings.Join(r.Caller.Models, ", ")).WithReason("right_missing")
	}
	r.Detail = "to " + ask.Name
	if err := h.Models.Rename(r.WorkContext(), id.Name, ask.Name); err != nil {
		return m, err
	}
	return h.model(r, edgewise.ModelID{Name: ask.Name})
}

// deleteVersion deletes one version: DELETE /api/v1/models/{name}/versions/{version}.
func (h *handlers) deleteVersion(r *httpapi.Request, id edgewise.ModelID) error {
	if err := h.deleteDependants(r, id); err != nil {
		return err
	}
	r.Detail = "version " + strconv.FormatInt(id.Version, 10)
	return h.Models.DeleteVersion(r.WorkContext(), id)
}

// deleteModel deletes a model with all its versions: DELETE /api/v1/models/{name}.
func (h *handlers) deleteModel(r *httpapi.Request, id edgewise.ModelID) error {
	if err := h.deleteDependants(r, id); err != nil {
		return err
	}
	return h.Models.DeleteModel(r.WorkContext(), id.Name)
}

// deleteDependants deletes what depends on a version or a model, where the query has dependants=true.
func (h *handlers) deleteDependants(r *httpapi.Request, id edgewise.ModelID) error {
	if h.Catalog == nil || r.Query("dependants") != "true" {
		return nil
	}
	r.Detail = "with what depends on it"
	return h.Catalog.DeleteDependants(r.WorkContext(), id)
}
