package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// serverMetadata answers GET /v2.
func (s *Server) serverMetadata(c *fiber.Ctx) error {
	return writeJSON(c, kserve.ServerMetadata{Name: s.deps.Name, Version: s.deps.Version, Extensions: kserve.Extensions()})
}

// modelMetadata answers GET /v2/models/{name}[/versions/{version}].
func (s *Server) modelMetadata(c *fiber.Ctx) error {
	id, err := s.inferenceID(c)
	if err != nil {
		return err
	}
	v, ready, err := s.deps.Engine.Version(id)
	if err != nil {
		return err
	}
	return writeJSON(c, kserve.NewModelMetadata(v, ready))
}

// modelReady answers GET /v2/models/{name}[/versions/{version}]/ready. A model that nobody knows is not ready either.
func (s *Server) modelReady(c *fiber.Ctx) error {
	id, err := s.inferenceID(c)
	if err == nil {
		err = s.deps.Engine.VersionReady(id)
	}
	if err == nil {
		return emptyJSON(c)
	}
	switch kind := edgewise.KindOf(err); kind {
	case edgewise.NotFound, edgewise.Unavailable:
		return &special{fiber.StatusBadRequest, edgewise.Errorf("httpapi.modelReady", kind, "Model version not ready")}
	}
	return err
}

// modelConfig answers GET /v2/models/{name}[/versions/{version}]/config.
func (s *Server) modelConfig(c *fiber.Ctx) error {
	id, err := s.inferenceID(c)
	if err != nil {
		return err
	}
	v, _, err := s.deps.Engine.Version(id)
	if err != nil {
		return err
	}
	return writeJSON(c, v.Model)
}
