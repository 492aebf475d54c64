// Package inference answers the routes of KServe's v2 protocol with Triton's extensions: inferences, metadata, health,
// statistics, the model repository, shared memory, traces and log settings.
package inference

import (
	"context"
	"regexp"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
	"github.com/edgewise-ai/edgewise/appliance/frontend"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Deps are the parts that the handlers call. Without Logging or Tracing, the routes of its settings are not there.
type Deps struct {
	frontend.Deps
	// Metrics returns the metrics page and its content type. Nil: there is no such page.
	Metrics func() (page []byte, contentType string, err error)
	// MetricsPublic tells whether the metrics page is for everybody. Nil: it is not.
	MetricsPublic func() bool
}

// Handlers answers the routes of the protocol.
type Handlers struct {
	*httpapi.Server
	Deps
	decoder   *kserve.Decoder
	forwarded *regexp.Regexp // names of headers that become parameters; nil: none
	encoders  encoders
}

// Register adds the routes of the protocol to a server. Errors: Invalid for a pattern of Config.ForwardHeaders that is
// no regular expression.
func Register(s *httpapi.Server, deps Deps) (*Handlers, error) {
	h := &Handlers{Server: s, Deps: deps, decoder: kserve.NewDecoder(kserve.Limits{MaxJSON: s.Config().MaxJSONBytes})}
	var err error
	if h.forwarded, err = frontend.HeaderPattern(s.Config().ForwardHeaders); err != nil {
		return nil, edgewise.Errorf("inference.Register", edgewise.Invalid, "http.forward_headers: %w", err)
	}
	s.Handle(h.routes()...)
	return h, nil
}

// use is what looking at a model to run it needs.
const use = edgewise.Read | edgewise.Infer

// routes is the table of the protocol. Those whose part of Deps is missing are not in it.
func (h *Handlers) routes() []httpapi.Route {
	all := []httpapi.Route{
		{Method: "GET", Path: "/v2", Handler: h.serverMetadata, Rights: use, AboutServer: true, API: "metadata"},
		{Method: "GET", Path: "/v2/health/live", Handler: h.live, Public: true, API: "health"},
		{Method: "GET", Path: "/v2/health/ready", Handler: h.ready, Public: true, API: "health"},
		{Method: "GET", Path: "/v2/models/stats", Handler: h.statistics, Rights: edgewise.Read, API: "statistics"},
	}
	if h.Metrics != nil {
		all = append(all, httpapi.Route{
			Method: "GET", Path: "/metrics", Handler: h.metrics, Rights: edgewise.Read, PublicIf: h.MetricsPublic,
		})
	}
	for _, model := range []string{"/v2/models/:model", "/v2/models/:model/versions/:version"} {
		all = append(all, h.modelRoutes(model)...)
	}
	for _, path := range []string{"", "/region/:region"} {
		all = append(all, h.regionRoutes(path)...)
	}
	return append(append(all, h.repositoryRoutes()...), h.settingRoutes()...)
}

// modelRoutes are the routes of a model, or of one of its versions, below path.
func (h *Handlers) modelRoutes(path string) []httpapi.Route {
	routes := []httpapi.Route{
		{Path: path, Handler: h.modelMetadata, API: "metadata"},
		{Path: path + "/ready", Handler: h.modelReady, API: "health"},
		{Path: path + "/config", Handler: h.modelConfig, API: "model-config"},
		{Path: path + "/stats", Handler: h.statistics, API: "statistics"},
	}
	for i := range routes {
		routes[i].Method, routes[i].Rights = "GET", use
	}
	infer := httpapi.Route{
		Method: "POST", Path: path + "/infer", Handler: h.infer, Rights: edgewise.Infer, Runs: true,
		Body: httpapi.TensorBody, Stream: true, API: "inference", Refused: h.Refused,
	}
	generate := infer
	generate.Path, generate.Handler, generate.Stream = path+"/generate", h.generate, false
	stream := generate
	stream.Path, stream.Handler = path+"/generate_stream", h.generateStream
	return append(routes, infer, generate, stream)
}

// regionRoutes are the routes of all shared memory regions, or of one, with path at the place of its name.
func (h *Handlers) regionRoutes(path string) []httpapi.Route {
	const system, device = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
	routes := []httpapi.Route{
		{Method: "GET", Path: system + path + "/status", Handler: h.regions},
		{Method: "POST", Path: system + path + "/register", Handler: h.registerRegion},
		{Method: "POST", Path: system + path + "/unregister", Handler: h.unregisterRegion},
		{Method: "GET", Path: device + path + "/status", Handler: h.deviceRegions},
		{Method: "POST", Path: device + path + "/register", Handler: h.registerDeviceRegion},
		{Method: "POST", Path: device + path + "/unregister", Handler: h.unregisterDeviceRegion},
	}
	for i := range routes {
		routes[i].Rights, routes[i].API = edgewise.Infer, "shared-memory"
	}
	return routes
}

func (h *Handlers) repositoryRoutes() []httpapi.Route {
	const operate, models, named = edgewise.Operate, "/v2/repository/models/:model", "/v2/repository/:repository"
	routes := []httpapi.Route{
		{Path: "/v2/repository/index", Handler: h.repositoryIndex, Rights: edgewise.Read},
		{
			Path: models + "/load", Handler: h.loadModel, Rights: operate, Body: httpapi.LoadBody, Action: "model.load",
		},
		{Path: models + "/unload", Handler: h.unloadModel, Rights: operate, Action: "model.unload"},
		{Path: named + "/index", Handler: h.repositoryIndex, Rights: edgewise.Read},
		{Path: named + "/models/:model/load", Handler: noRepositoryName, Rights: operate},
		{Path: named + "/models/:model/unload", Handler: noRepositoryName, Rights: operate},
	}
	for i := range routes {
		routes[i].Method, routes[i].API = "POST", "model-repository"
	}
	return routes
}

// settingRoutes are the routes of the log settings and the trace settings.
func (h *Handlers) settingRoutes() (all []httpapi.Route) {
	const read, operate = edgewise.Read, edgewise.Operate
	if h.Logging != nil {
		const path, api = "/v2/logging", "logging"
		all = append(all,
			httpapi.Route{Method: "GET", Path: path, Handler: h.logSettings, Rights: read, API: api},
			httpapi.Route{
				Method: "POST", Path: path, Handler: h.changeLogSettings, Rights: edgewise.Admin,
				Action: "logging.change", API: api,
			})
	}
	if h.Tracing == nil {
		return all
	}
	for _, path := range []string{"/v2/trace/setting", "/v2/models/:model/trace/setting"} {
		const api = "trace"
		all = append(all,
			httpapi.Route{Method: "GET", Path: path, Handler: h.traceSettings, Rights: read, API: api},
			httpapi.Route{
				Method: "POST", Path: path, Handler: h.changeTraceSettings, Rights: operate,
				Action: "tracing.change", API: api,
			})
	}
	return all
}

// Refused counts an inference that ended with err before the engine received it.
func (h *Handlers) Refused(ctx context.Context, r *httpapi.Request, took time.Duration, err error) {
	id, missing := h.ModelID(r)
	if missing != nil {
		id.Version = 0
	}
	h.Engine.Refuse(ctx, id, took, err)
}

// metrics answers GET /metrics.
func (h *Handlers) metrics(r *httpapi.Request) error {
	page, contentType, err := h.Metrics()
	if err != nil {
		return edgewise.Errorf("inference.metrics", edgewise.Internal, "metrics: %w", err)
	}
	r.Set(fiber.HeaderContentType, contentType)
	return r.Send(page)
}
