package administration

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Editor makes ensembles and steps. All methods are safe for concurrent use.
type Editor interface {
	// Drafts lists the drafts, latest change first. The others make, read, save and delete one. Errors: NotFound, Invalid,
	// TooLarge, Conflict for another revision than the stored one.
	Drafts() ([]admin.Draft, error)
	CreateDraft(p *edgewise.Principal, n admin.DraftNew) (admin.Draft, error)
	Draft(id string) (admin.Draft, error)
	SaveDraft(id string, d admin.DraftSave) (admin.Draft, error)
	DeleteDraft(id string) error
	// Validate lists everything that is wrong with a draft. Errors: NotFound.
	Validate(id string) (admin.Validation, error)
	// DraftModel returns a draft as a model. Errors: NotFound, Invalid.
	DraftModel(id string) (*edgewise.Model, error)
	// Trace runs a draft once. Errors: NotFound, Invalid, Unavailable when a step's model is not ready.
	Trace(ctx context.Context, id string, req *edgewise.Request) (admin.Trace, error)
	// Publish stores a draft as a version. Errors: NotFound, and those of Library.Push.
	Publish(ctx context.Context, id string, p admin.Publish) (*admin.Pushed, error)
	// Gallery lists the steps that come with the box, StepLibrary the files that every step imports.
	Gallery() []admin.GalleryStep
	StepLibrary() map[string]string
	// TryStep runs a compiled step once. Errors: Invalid, TooLarge.
	TryStep(ctx context.Context, t admin.StepTrial) (admin.Trace, error)
	// DeployStep stores a compiled step as a version. Errors: those of Library.Push.
	DeployStep(ctx context.Context, name string, d admin.StepDeploy) (*admin.Pushed, error)
}

// editorRoutes are about drafts of pipelines and steps.
func (h *handlers) editorRoutes() []httpapi.Route {
	const read, operate, drafts, draft = edgewise.Read, edgewise.Operate, "/api/v1/drafts", "/api/v1/drafts/:id"
	return []httpapi.Route{
		{Method: "GET", Path: drafts, Handler: show(h.drafts), Rights: operate},
		{Method: "POST", Path: drafts, Handler: change(h.createDraft), Rights: operate},
		{Method: "GET", Path: draft, Handler: show(h.draft), Rights: operate},
		{Method: "PUT", Path: draft, Handler: change(h.saveDraft), Rights: operate},
		act("DELETE", draft, "draft.delete", operate, run(h.deleteDraft)),
		{Method: "POST", Path: draft + "/validation", Handler: show(h.validateDraft), Rights: operate},
		{
			Method: "POST", Path: draft + "/trace", Handler: show(h.traceDraft), Rights: operate, Runs: true,
			Body: httpapi.TensorBody,
		},
		act("POST", draft+"/publish", "draft.publish", operate, h.publishDraft),
		{Method: "GET", Path: "/api/v1/steps/gallery", Handler: get(h.Editor.Gallery), Rights: read},
		{Method: "GET", Path: "/api/v1/steps/library", Handler: get(h.Editor.StepLibrary), Rights: read},
		{
			Method: "POST", Path: "/api/v1/steps/trial", Handler: change(h.tryStep), Rights: operate, Runs: true,
			Body: httpapi.StepBody,
		},
		{
			Method: "POST", Path: "/api/v1/steps/:model/versions", Handler: h.deployStep, Rights: operate,
			Body: httpapi.StepBody, Action: "step.deploy",
		},
	}
}

func (h *handlers) drafts(*httpapi.Request) ([]admin.Draft, error) { return h.Editor.Drafts() }

// createDraft begins a draft: POST /api/v1/drafts.
func (h *handlers) createDraft(r *httpapi.Request, ask admin.DraftNew) (admin.Draft, error) {
	r.Status(fiber.StatusCreated)
	return h.Editor.CreateDraft(r.Caller, ask)
}

func (h *handlers) draft(r *httpapi.Request) (admin.Draft, error) {
	return h.Editor.Draft(r.Param("id"))
}

// saveDraft saves a draft: PUT /api/v1/drafts/{id}.
func (h *handlers) saveDraft(r *httpapi.Request, ask admin.DraftSave) (admin.Draft, error) {
	return h.Editor.SaveDraft(r.Param("id"), ask)
}

func (h *handlers) deleteDraft(r *httpapi.Request) error {
	id := r.Param("id")
	r.Target = id
	if d, err := h.Editor.Draft(id); err == nil {
		r.Target = d.Name
	}
	return h.Editor.DeleteDraft(id)
}

// validateDraft lists what is wrong with a draft: POST /api/v1/drafts/{id}/validation.
func (h *handlers) validateDraft(r *httpapi.Request) (admin.Validation, error) {
	return h.Editor.Validate(r.Param("id"))
}

// traceDraft runs a draft once: POST /api/v1/drafts/{id}/trace, with the body of an inference request.
func (h *handlers) traceDraft(r *httpapi.Request) (trace admin.Trace, err error) {
	m, err := h.Editor.DraftModel(r.Param("id"))
	if err != nil {
		return trace, err
	}
	req, err := h.Decode(r, edgewise.ModelID{Name: m.Name}, r.Request().Body())
	if err != nil {
		return trace, err
	}
	defer req.Release()
	ctx := r.Begin(time.Now())
	defer r.End()
	return h.Editor.Trace(ctx, r.Param("id"), &req.Request)
}

// publishDraft stores a draft as a version: POST /api/v1/drafts/{id}/publish.
func (h *handlers) publishDraft(r *httpapi.Request) error {
	var ask admin.Publish
	if len(r.Body()) > 0 {
		if err := r.ReadStrictJSON(&ask); err != nil {
			return err
		}
	}
	return h.stored(r)(h.Editor.Publish(r.WorkContext(), r.Param("id"), ask))
}

// stored answers with a version that was made, or with the error.
func (h *handlers) stored(r *httpapi.Request) func(*admin.Pushed, error) error {
	return func(pushed *admin.Pushed, err error) error {
		if err != nil {
			return err
		}
		r.Target = pushed.ID.String()
		return h.created(r, pushed)
	}
}

// tryStep runs a compiled step once: POST /api/v1/steps/trial.
func (h *handlers) tryStep(r *httpapi.Request, ask admin.StepTrial) (admin.Trace, error) {
	ctx := r.Begin(time.Now()) // an endless step ends when the client leaves
	defer r.End()
	return h.Editor.TryStep(ctx, ask)
}

// deployStep stores a compiled step: POST /api/v1/steps/{model}/versions.
func (h *handlers) deployStep(r *httpapi.Request) error {
	id, err := modelID(r)
	if err != nil {
		return err
	}
	var ask admin.StepDeploy
	if err := r.ReadStrictJSON(&ask); err != nil {
		return err
	}
	return h.stored(r)(h.Editor.DeployStep(r.WorkContext(), id.Name, ask))
}
