package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Logging is what the log settings need of the box. All methods are safe for concurrent use.
type Logging interface {
	// Settings tells what is logged, and how.
	Settings() kserve.LogSettings
	// Change changes that until the box stops, all of it or nothing, and returns what holds then. Errors: Unsupported,
	// Invalid.
	Change(c kserve.LogChange) (kserve.LogSettings, error)
}

// logSettings answers GET /v2/logging.
func (s *Server) logSettings(c *fiber.Ctx) error { return writeJSON(c, s.deps.Logging.Settings()) }

// changeLogSettings answers POST /v2/logging with the settings after the change. Members that are null or unknown
// change nothing, and neither does a body with anything wrong.
func (s *Server) changeLogSettings(c *fiber.Ctx) error {
	var change kserve.LogChange
	if err := readJSON(c, &change); err != nil {
		return err
	}
	settings, err := s.deps.Logging.Change(change)
	if err != nil {
		return err
	}
	return writeJSON(c, settings)
}
