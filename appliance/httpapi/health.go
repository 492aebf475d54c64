package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
)

// overview names the useful URLs.
func (s *Server) overview(c *fiber.Ctx) error {
	return writeJSON(c, map[string]any{
		"name":    s.deps.Name,
		"version": s.deps.Version,
		"urls": map[string]string{
			"server metadata":  "/v2",
			"readiness":        "/v2/health/ready",
			"inference":        "/v2/models/{model}/infer",
			"models":           "/api/v1/models",
			"metrics":          "/metrics",
			"model repository": "/v2/repository/index",
		},
	})
}

func (s *Server) metrics(c *fiber.Ctx) error {
	page, contentType, err := s.deps.Metrics()
	if err != nil {
		return edgewise.Errorf("httpapi.metrics", edgewise.Internal, "metrics: %w", err)
	}
	c.Set(fiber.HeaderContentType, contentType)
	return c.Send(page)
}

func (s *Server) live(c *fiber.Ctx) error { return health(c, s.deps.Engine.Live()) }

func (s *Server) ready(c *fiber.Ctx) error { return health(c, s.deps.Engine.Ready()) }

// health answers with a status alone, as the protocol has it.
func health(c *fiber.Ctx, good bool) error {
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	if !good {
		c.Status(fiber.StatusBadRequest)
	}
	return nil
}
