package appliance

import (
	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/config"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/administration"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/compatible"
	"github.com/edgewise-ai/edgewise/appliance/httpapi/inference"
	"github.com/edgewise-ai/edgewise/appliance/registry"
	"github.com/edgewise-ai/edgewise/webui"
)

var (
	_ frontend.Engine       = (*engine)(nil)
	_ administration.Models = (*registry.Registry)(nil)
	_ compatible.Inference  = inferences{}
)

// newREST makes the REST frontend with its routes.
func (a *App) newREST(protocol frontend.Deps) (*httpapi.Server, error) {
	c := a.config
	s, err := httpapi.New(restConfig(c), httpapi.Deps{
		Log: a.logger.With("part", "http"), Budget: a.budget, Name: c.Server.ID, Version: Version,
		Accounts: a.accounts, Open: a.openMode(), Page: page,
	})
	if err != nil {
		return nil, err
	}
	handlers, err := inference.Register(s, inference.Deps{
		Deps: protocol, Metrics: a.metrics(),
		MetricsPublic: func() bool { return a.box.Settings().MetricsPublic },
	})
	if err != nil {
		return nil, err
	}
	compatible.Register(s, compatible.Deps{Engine: protocol.Engine, Inference: inferences{handlers}, Labels: protocol.Labels})
	administration.Register(s, administration.Deps{
		Statuses: a.engine.Index, Models: a.registry, Formats: a.formats, Decode: handlers.Decode,
		Accounts: a.accounts, Open: a.openMode(), Box: a.box, Uploads: a.importer.Uploads(), Jobs: a.importer,
		Catalog: modelCatalog{a.catalog, a}, Editor: a.editor, Goldens: a.goldens, Hub: a.monitor.Hub, History: &a.monitor.History,
		Logs: a.monitor.Logs, Requests: &a.monitor.Requests, Stored: a.past.Read, Alerts: a.alerts, System: a.system,
		Recordings: a.recordings, Rollouts: a.rollouts, Tunings: a.tuner, Insights: a.insight, Capacities: a.capacities,
		Fleet: a.fleet, Registries: a.registries(),
	})
	return s, nil
}

// inferences are what the handlers of the v2 protocol do, for those of other protocols.
type inferences struct{ *inference.Handlers }

// Stream has the engine answer req, and answers with events for each response as it comes.
func (i inferences) Stream(r *httpapi.Request, req *edgewise.Request, e compatible.Events) error {
	return i.Handlers.Stream(r, req, inference.Events(e))
}

// page finds a file of the page that the program carries.
func page(path, acceptEncoding string) (httpapi.PageFile, bool) {
	asset, found := webui.Find(path, acceptEncoding)
	return httpapi.PageFile(asset), found
}

func restConfig(c config.Config) httpapi.Config {
	return httpapi.Config{
		MaxConnections: c.HTTP.MaxConnections, MaxJSONBytes: int64(c.HTTP.MaxJSONBytes),
		MaxInferBytes: int64(c.HTTP.MaxBodyBytes), MaxUploadBytes: int64(c.Upload.MaxBytes) + tarOverhead,
		MaxUploadFiles: c.Upload.MaxFiles, MaxInflightBytes: int64(c.HTTP.MaxInflightBytes),
		HeaderTimeout: c.HTTP.HeaderTimeout, BodyTimeout: c.HTTP.BodyTimeout, WriteTimeout: c.HTTP.WriteTimeout,
		IdleTimeout: c.HTTP.IdleTimeout, RequestTimeout: c.Engine.RequestTimeout,
		AllowedHosts: answeredHosts(c), Origins: c.HTTP.CORSOrigins, ForwardHeaders: c.HTTP.ForwardHeaders,
		Restricted: restrictions(c.HTTP.RestrictedAPI), TrustedProxies: c.HTTP.TrustedProxies,
	}
}

// tarOverhead is what an archive of many files may take beside their bytes.
const tarOverhead = 64 << 20
