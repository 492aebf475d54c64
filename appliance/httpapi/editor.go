package httpapi

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
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

// maxStepBytes bounds the body of a request that carries a compiled step, in base64, and its source.
const maxStepBytes = 40 << 20

// withID answers with what is known of the id in the path.
func (s *Server) withID(look func(ctx context.Context, id string) (any, error)) fiber.Handler {
	return func(c *fiber.Ctx) error {
		id, err := param(c, "id")
		if err != nil {
			return err
		}
		found, err := look(s.as(c), id)
		if err != nil {
			return err
		}
		return writeJSON(c, found)
	}
}

func (s *Server) drafts(c *fiber.Ctx) error {
	list, err := s.deps.Editor.Drafts()
	if err != nil {
		return err
	}
	return writeJSON(c, list)
}

// createDraft begins a draft: POST /api/v1/drafts.
func (s *Server) createDraft(c *fiber.Ctx) error {
	var ask admin.DraftNew
	if err := readBody(c, &ask); err != nil {
		return err
	}
	d, err := s.deps.Editor.CreateDraft(who(c), ask)
	if err != nil {
		return err
	}
	c.Status(fiber.StatusCreated)
	return writeJSON(c, d)
}

// saveDraft saves a draft: PUT /api/v1/drafts/{id}.
func (s *Server) saveDraft(c *fiber.Ctx) error {
	var ask admin.DraftSave
	if err := readBody(c, &ask); err != nil {
		return err
	}
	return s.withID(func(_ context.Context, id string) (any, error) { return s.deps.Editor.SaveDraft(id, ask) })(c)
}

func (s *Server) deleteDraft(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	target(c, id)
	return done(c, s.deps.Editor.DeleteDraft(id))
}

// traceDraft runs a draft once: POST /api/v1/drafts/{id}/trace, with the body of an inference request.
func (s *Server) traceDraft(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	m, err := s.deps.Editor.DraftModel(id)
	if err != nil {
		return err
	}
	req, err := s.decode(edgewise.ModelID{Name: m.Name}, formOf(&c.Request().Header), c.Request().Body())
	if err != nil {
		return err
	}
	defer req.Release()
	trace, err := s.deps.Editor.Trace(s.as(c), id, &req.Request)
	if err != nil {
		return err
	}
	return writeJSON(c, trace)
}

// publishDraft stores a draft as a version: POST /api/v1/drafts/{id}/publish.
func (s *Server) publishDraft(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	var ask admin.Publish
	if len(c.Body()) > 0 {
		if err := readBody(c, &ask); err != nil {
			return err
		}
	}
	return s.stored(c)(s.deps.Editor.Publish(s.as(c), id, ask))
}

// stored answers with a version that was made, or with the error.
func (s *Server) stored(c *fiber.Ctx) func(*admin.Pushed, error) error {
	return func(pushed *admin.Pushed, err error) error {
		if err != nil {
			return err
		}
		target(c, pushed.ID.String())
		return s.created(c, pushed)
	}
}

// tryStep runs a compiled step once: POST /api/v1/steps/trial.
func (s *Server) tryStep(c *fiber.Ctx) error {
	var ask admin.StepTrial
	if err := readBody(c, &ask); err != nil {
		return err
	}
	trace, err := s.deps.Editor.TryStep(s.as(c), ask)
	if err != nil {
		return err
	}
	return writeJSON(c, trace)
}

// deployStep stores a compiled step: POST /api/v1/steps/{model}/versions.
func (s *Server) deployStep(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	var ask admin.StepDeploy
	if err := readBody(c, &ask); err != nil {
		return err
	}
	return s.stored(c)(s.deps.Editor.DeployStep(s.as(c), id.Name, ask))
}
