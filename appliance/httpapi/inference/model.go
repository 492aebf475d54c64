package inference

import (
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// ModelID returns the model that a path names. A name that no model can have is as unknown as any other; a version that
// is neither a number nor a label makes the path one that does not exist. With an error comes the model without the
// version, as far as it is known.
func (h *Handlers) ModelID(r *httpapi.Request) (edgewise.ModelID, error) {
	return h.Named(r.Param("model"), r.Param("version"))
}

// Named returns the version of a model that a number or a label names; Version is 0 without one. Error: NotFound.
func (h *Handlers) Named(name, version string) (id edgewise.ModelID, err error) {
	const op = "inference.ModelID"
	if edgewise.CheckName(name) != nil {
		return id, edgewise.Errorf(op, edgewise.NotFound, "Request for unknown model: '%.200s' is not found", name)
	}
	if id.Name = name; version == "" {
		return id, nil
	}
	if strings.Trim(version, "0123456789") == "" {
		id.Version, err = strconv.ParseInt(version, 10, 64)
		if err != nil || id.Version == 0 {
			return id, edgewise.Errorf(op, edgewise.NotFound, "Request for unknown model: '%s' version %.40s is not found",
				name, version)
		}
		return id, nil
	}
	// A client that names a label instead of a number follows it when it moves.
	if h.Labelled != nil {
		id.Version = h.Labelled(name, version)
	}
	if id.Version == 0 {
		return id, edgewise.Errorf(op, edgewise.NotFound, "Request for unknown model: '%.200s' version '%.200s' is not "+
			"found: want its number, or a label of this model", name, version)
	}
	return id, nil
}

// version returns the version of the model that a path names, and which of its versions are ready.
func (h *Handlers) version(r *httpapi.Request) (v *edgewise.Version, ready []int64, err error) {
	id, err := h.ModelID(r)
	if err != nil {
		return nil, nil, err
	}
	return h.Engine.Version(id)
}

// serverMetadata answers GET /v2.
func (h *Handlers) serverMetadata(r *httpapi.Request) error {
	return r.WriteJSON(kserve.ServerMetadata{Name: h.Name, Version: h.Version, Extensions: kserve.Extensions()})
}

func (h *Handlers) live(r *httpapi.Request) error { return health(r, h.Engine.Live()) }

func (h *Handlers) ready(r *httpapi.Request) error { return health(r, h.Engine.Ready()) }

// health answers with a status alone, as the protocol has it.
func health(r *httpapi.Request, good bool) error {
	if !good {
		r.Status(fiber.StatusBadRequest)
	}
	return emptyJSON(r)
}

// modelMetadata answers GET /v2/models/{name}[/versions/{version}].
func (h *Handlers) modelMetadata(r *httpapi.Request) error {
	v, ready, err := h.version(r)
	if err != nil {
		return err
	}
	return r.WriteJSON(kserve.NewModelMetadata(v, ready))
}

// modelConfig answers GET /v2/models/{name}[/versions/{version}]/config.
func (h *Handlers) modelConfig(r *httpapi.Request) error {
	v, _, err := h.version(r)
	if err != nil {
		return err
	}
	return r.WriteJSON(v.Model)
}

// modelReady answers GET /v2/models/{name}[/versions/{version}]/ready. A model that nobody knows is not ready either.
func (h *Handlers) modelReady(r *httpapi.Request) error {
	id, err := h.ModelID(r)
	if err == nil {
		err = h.Engine.VersionReady(id)
	}
	if err == nil {
		return emptyJSON(r)
	}
	switch kind := edgewise.KindOf(err); kind {
	case edgewise.NotFound, edgewise.Unavailable:
		return httpapi.WithStatus(fiber.StatusBadRequest,
			edgewise.Errorf("inference.modelReady", kind, "Model version not ready"))
	}
	return err
}

// statistics answers GET /v2/models/stats and GET /v2/models/{name}[/versions/{version}]/stats.
func (h *Handlers) statistics(r *httpapi.Request) error {
	id, err := h.ModelID(r)
	if err != nil && r.Param("model") != "" {
		return err
	}
	list, err := h.Engine.Statistics(id)
	if err != nil {
		return err
	}
	return r.WriteJSON(kserve.NewStatisticsBody(list))
}
