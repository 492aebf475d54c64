package httpapi

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// repositoryIndex lists what the box holds: POST /v2/repository/index, with an empty body or {"ready": bool}.
func (s *Server) repositoryIndex(c *fiber.Ctx) error {
	var ask kserve.IndexRequest
	if err := readJSON(c, &ask); err != nil {
		return err
	}
	all := s.deps.Engine.Index()
	entries := make([]kserve.IndexEntry, 0, len(all))
	for _, status := range all {
		if !ask.Ready || status.State == edgewise.StateReady {
			entries = append(entries, kserve.NewIndexEntry(status))
		}
	}
	return writeJSON(c, entries)
}

// loadModel answers when the model is ready: POST /v2/repository/models/{name}/load.
func (s *Server) loadModel(c *fiber.Ctx) error {
	name, err := param(c, "model")
	if err != nil {
		return err
	}
	if err := kserve.CheckLoadName(name); err != nil {
		return err
	}
	var ask kserve.LoadRequest
	if err := readJSON(c, &ask); err != nil {
		return err
	}
	override, err := ask.Override()
	if err != nil {
		return err
	}
	if err := s.deps.Engine.Load(s.as(c), name, override); err != nil {
		return err
	}
	return emptyJSON(c)
}

// unloadModel answers at once: POST /v2/repository/models/{name}/unload. Parameters that it does not know are ignored.
func (s *Server) unloadModel(c *fiber.Ctx) error {
	name, err := param(c, "model")
	if err != nil {
		return err
	}
	var ask struct {
		Parameters map[string]json.RawMessage `json:"parameters"`
	}
	if err := readJSON(c, &ask); err != nil {
		return err
	}
	dependents := false
	if value, ok := ask.Parameters["unload_dependents"]; ok && json.Unmarshal(value, &dependents) != nil {
		return edgewise.Errorf("httpapi.unloadModel", edgewise.Invalid, "Unable to parse 'unload_dependents': it is %.40s, "+
			"want true or false", value)
	}
	if err := s.deps.Engine.Unload(s.as(c), name, dependents); err != nil {
		return err
	}
	return emptyJSON(c)
}

func (s *Server) noRepositoryName(*fiber.Ctx) error {
	return edgewise.Errorf("httpapi.noRepositoryName", edgewise.Unsupported,
		"'repository_name' specification is not supported")
}

func emptyJSON(c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return nil
}

// readJSON reads a body that may be empty. Errors: Invalid, Unsupported for an encoded body.
func readJSON(c *fiber.Ctx, into any) error {
	if err := noEncoding(c); err != nil {
		return err
	}
	body := c.Request().Body()
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return bodyProblem(err)
	}
	return nil
}

// bodyProblem says what is wrong with a body.
func bodyProblem(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		e := edgewise.Errorf("httpapi.readJSON", edgewise.Invalid, "member %q of the body is a %s: want %s", wrong.Field,
			wrong.Value, wanted(wrong.Type.Kind()))
		e.Field = wrong.Field
		return e
	}
	return edgewise.Errorf("httpapi.readJSON", edgewise.Invalid, "the body is not the JSON this route takes: %w", err)
}

// wanted names what JSON has for a kind of Go's.
func wanted(kind reflect.Kind) string {
	switch kind {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number"
}
