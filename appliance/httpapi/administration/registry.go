package administration

import (
	"context"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Registries are the OCI registries that the box may write to. They are read by uploads of references.
type Registries interface {
	// Publish publishes a version under a reference with a tag. Errors: NotFound, Invalid with Field, Denied, Unavailable, Corrupt,
	// Unsupported where the program for that is not installed.
	Publish(ctx context.Context, id edgewise.ModelID, reference string) (admin.PublishedVersion, error)
}

// registryRoutes are about registries.
func (h *handlers) registryRoutes() []httpapi.Route {
	return []httpapi.Route{
		act("POST", versionPath+"/publish", "version.publish", edgewise.Operate, showModel(h.publish)),
	}
}

// publish publishes a version in a registry: POST /api/v1/models/{model}/versions/{version}/publish.
func (h *handlers) publish(r *httpapi.Request, id edgewise.ModelID) (p admin.PublishedVersion, err error) {
	var ask admin.PublishVersion
	if err := r.ReadStrictJSON(&ask); err != nil {
		return p, err
	}
	r.Detail = "as " + ask.Reference
	return h.Registries.Publish(r.WorkContext(), id, ask.Reference)
}
