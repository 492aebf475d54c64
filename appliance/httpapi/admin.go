package httpapi

import (
	"context"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// listModels lists what is stored: GET /api/v1/models.
func (s *Server) listModels(c *fiber.Ctx) error {
	records, statuses := s.deps.Library.Records(), s.deps.Engine.Index()
	models := make([]admin.Model, len(records))
	for i, r := range records {
		models[i] = s.noted(admin.NewModel(r, statuses))
	}
	return writeJSON(c, models)
}

// showModel shows one model with its versions and labels: GET /api/v1/models/{name}.
func (s *Server) showModel(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	record, err := s.deps.Library.Record(id.Name)
	if err != nil {
		return err
	}
	return writeJSON(c, s.noted(admin.NewModel(record, s.deps.Engine.Index())))
}

// inspection shows what is known of a version's files: GET /api/v1/models/{name}/versions/{version}/inspection.
func (s *Server) inspection(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	seen, err := s.deps.Library.Inspect(s.as(c), id)
	if err != nil {
		return err
	}
	return writeJSON(c, seen)
}

// proposals says what pipelines a version may be meant for: GET /api/v1/models/{name}/versions/{version}/proposals.
func (s *Server) proposals(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	list, err := s.deps.Library.Propose(id)
	if err != nil {
		return err
	}
	return writeJSON(c, append([]admin.Proposal{}, list...))
}

// setLabel points a label to a version: PUT /api/v1/models/{name}/labels/{label} with {"version": N}.
func (s *Server) setLabel(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	label, err := adminLabel(c)
	if err != nil {
		return err
	}
	var ask admin.SetLabel
	if err := readJSON(c, &ask); err != nil {
		return err
	}
	if ask.Version <= 0 {
		return edgewise.Errorf("httpapi.setLabel", edgewise.Invalid,
			`the body names no version: want {"version": N} with N of 1 or more`)
	}
	detail(c, "label "+label+" to version "+strconv.FormatInt(ask.Version, 10))
	set, err := s.deps.Library.SetLabel(s.as(c), id.Name, label, ask.Version)
	if err != nil {
		return err
	}
	return writeJSON(c, set)
}

// removeLabel forgets a label: DELETE /api/v1/models/{name}/labels/{label}.
func (s *Server) removeLabel(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	label, err := adminLabel(c)
	if err != nil {
		return err
	}
	return done(c, s.deps.Library.RemoveLabel(s.as(c), id.Name, label))
}

// rollback points a label to where it pointed before: POST /api/v1/models/{name}/rollback, with an empty body or
// {"label": "live"}.
func (s *Server) rollback(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	ask := admin.Rollback{Label: edgewise.LiveLabel}
	if err := readJSON(c, &ask); err != nil {
		return err
	}
	if err := checkLabel(ask.Label); err != nil {
		return err
	}
	set, err := s.deps.Library.Rollback(s.as(c), id.Name, ask.Label)
	if err != nil {
		return err
	}
	return writeJSON(c, set)
}

// deleteVersion deletes one version: DELETE /api/v1/models/{name}/versions/{version}.
func (s *Server) deleteVersion(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	return s.remove(c, id, s.deps.Library.DeleteVersion)
}

// deleteModel deletes a model with all its versions: DELETE /api/v1/models/{name}.
func (s *Server) deleteModel(c *fiber.Ctx) error {
	id, err := adminID(c)
	if err != nil {
		return err
	}
	return s.remove(c, id, func(ctx context.Context, id edgewise.ModelID) error {
		return s.deps.Library.DeleteModel(ctx, id.Name)
	})
}

// done answers 204 unless there is an error.
func done(c *fiber.Ctx, err error) error {
	if err != nil {
		return err
	}
	c.Status(fiber.StatusNoContent)
	return nil
}
