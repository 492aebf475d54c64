package httpapi

import (
	"context"

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

// inferLabelled runs a request. Where its path names a label, and the version that this pointed to has gone since the path was
// read, the request goes to the version that it points to now.
func (s *Server) inferLabelled(ctx context.Context, c *fiber.Ctx, req *edgewise.Request) (*edgewise.Response, error) {
	for {
		resp, err := s.deps.Engine.Infer(ctx, req)
		if err == nil {
			return resp, nil
		}
		if kind := edgewise.KindOf(err); kind != edgewise.NotFound && kind != edgewise.Unavailable {
			return nil, err
		}
		now, missing := s.inferenceID(c)
		if missing != nil || now == req.Model {
			return nil, err
		}
		req.Model = now
	}
}
