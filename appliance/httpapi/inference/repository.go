package inference

import (
	"encoding/json"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// repositoryIndex lists what the box holds: POST /v2/repository/index, with an empty body or {"ready": bool}.
func (h *Handlers) repositoryIndex(r *httpapi.Request) error {
	if err := r.CheckIdentity(); err != nil {
		return err
	}
	ask, err := kserve.ReadIndexRequest(r.Request().Body())
	if err != nil {
		return err
	}
	all := h.Engine.Index()
	entries := make([]kserve.IndexEntry, 0, len(all))
	for _, status := range all {
		if !ask.Ready || status.State == edgewise.StateReady {
			entries = append(entries, kserve.NewIndexEntry(status))
		}
	}
	return r.WriteJSON(entries)
}

// loadModel answers when the model is ready: POST /v2/repository/models/{name}/load.
func (h *Handlers) loadModel(r *httpapi.Request) error {
	name := r.Param("model")
	if err := kserve.CheckLoadName(name); err != nil {
		return err
	}
	var ask kserve.LoadRequest
	if err := r.ReadJSON(&ask); err != nil {
		return err
	}
	override, err := ask.Override()
	if err != nil {
		return err
	}
	if err := h.Engine.Load(r.WorkContext(), name, override); err != nil {
		return err
	}
	return emptyJSON(r)
}

// unloadModel answers at once: POST /v2/repository/models/{name}/unload. Parameters that it does not know are ignored.
func (h *Handlers) unloadModel(r *httpapi.Request) error {
	name := r.Param("model")
	var ask struct {
		Parameters map[string]json.RawMessage `json:"parameters"`
	}
	if err := r.ReadJSON(&ask); err != nil {
		return err
	}
	dependents := false
	if value, ok := ask.Parameters["unload_dependents"]; ok && json.Unmarshal(value, &dependents) != nil {
		return edgewise.Errorf("inference.unloadModel", edgewise.Invalid, "Unable to parse 'unload_dependents': it is %.40s, "+
			"want true or false", value)
	}
	if err := h.Engine.Unload(r.WorkContext(), name, dependents); err != nil {
		return err
	}
	return emptyJSON(r)
}

func noRepositoryName(*httpapi.Request) error {
	return edgewise.Errorf("inference.noRepositoryName", edgewise.Unsupported,
		"'repository_name' specification is not supported")
}

func emptyJSON(r *httpapi.Request) error {
	r.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return nil
}
