package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// statistics answers GET /v2/models/stats and GET /v2/models/{name}[/versions/{version}]/stats.
func (s *Server) statistics(c *fiber.Ctx) error {
	var id edgewise.ModelID
	if rawParam(c, "model") != "" {
		var err error
		if id, err = s.inferenceID(c); err != nil {
			return err
		}
	}
	list, err := s.deps.Engine.Statistics(id)
	if err != nil {
		return err
	}
	return writeJSON(c, kserve.NewStatisticsBody(list))
}
