package httpapi

import (
	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
)

// labelled returns the version that a label points to now. A client that names a label instead of a number goes along when it
// moves. Errors: fiber's ErrNotFound when no model or no label has that name, as for any path that does not exist.
func (s *Server) labelled(name, label string) (edgewise.ModelID, error) {
	id := edgewise.ModelID{Name: name}
	if s.deps.Library == nil || edgewise.CheckLabel(label) != nil {
		return id, fiber.ErrNotFound
	}
	record, err := s.deps.Library.Record(name)
	if err != nil {
		return id, fiber.ErrNotFound
	}
	if id.Version = record.Label(label); id.Version == 0 {
		return id, fiber.ErrNotFound
	}
	return id, nil
}
