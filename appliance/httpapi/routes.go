package httpapi

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
)

// addRoutes is the whole table of routes. Paths match exactly; names arrive percent-encoded.
func (s *Server) addRoutes(app *fiber.App) {
	app.Get("/", s.root)
	if s.deps.Metrics != nil {
		app.Get("/metrics", s.metrics)
	}
	s.addInferenceRoutes(app)
	s.addRepositoryRoutes(app)
	s.addAdminRoutes(app)
	s.addAccountRoutes(app)
	s.addBoxRoutes(app)
	s.addSystemRoutes(app)
	s.addUploadRoutes(app)
	s.addCatalogRoutes(app)
	s.addWorkshopRoutes(app)
	s.addActivityRoutes(app)
}

func (s *Server) addInferenceRoutes(app *fiber.App) {
	get := func(api, path string, h fiber.Handler) { app.Get(path, s.restricted(api, h)) }
	post := func(api, path string, h fiber.Handler) { app.Post(path, s.restricted(api, h)) }
	get("metadata", "/v2", s.serverMetadata)
	get("health", "/v2/health/live", s.live)
	get("health", "/v2/health/ready", s.ready)
	get("statistics", "/v2/models/stats", s.statistics)
	if s.deps.Logging != nil {
		get("logging", "/v2/logging", s.logSettings)
		post("logging", "/v2/logging", s.changeLogSettings)
	}
	if s.deps.Tracing != nil {
		for _, path := range []string{"/v2/trace/setting", "/v2/models/:model/trace/setting"} {
			get("trace", path, s.traceSettings)
			post("trace", path, s.changeTraceSettings)
		}
	}
	for _, model := range []string{"/v2/models/:model", "/v2/models/:model/versions/:version"} {
		get("metadata", model, s.modelMetadata)
		get("health", model+"/ready", s.modelReady)
		get("model-config", model+"/config", s.modelConfig)
		get("statistics", model+"/stats", s.statistics)
		post("inference", model+"/infer", s.infer)
		post("inference", model+"/generate", s.generate)
		post("inference", model+"/generate_stream", s.generateStream)
	}
	s.addSharedMemoryRoutes(get, post)
}

func (s *Server) addRepositoryRoutes(app *fiber.App) {
	post := func(path string, h fiber.Handler) { app.Post(path, s.restricted("model-repository", h)) }
	post("/v2/repository/index", s.repositoryIndex)
	post("/v2/repository/models/:model/load", s.loadModel)
	post("/v2/repository/models/:model/unload", s.unloadModel)
	post("/v2/repository/:repository/index", s.repositoryIndex)
	post("/v2/repository/:repository/models/:model/load", s.noRepositoryName)
	post("/v2/repository/:repository/models/:model/unload", s.noRepositoryName)
}

func (s *Server) addAdminRoutes(app *fiber.App) {
	const model = "/api/v1/models/:model"
	app.Get("/api/v1/models", s.listModels)
	app.Get(model, s.showModel)
	app.Delete(model, s.deleteModel)
	app.Post(model+"/versions", s.upload)
	app.Delete(model+"/versions/:version", s.deleteVersion)
	app.Get(model+"/versions/:version/inspection", s.inspection)
	app.Get(model+"/versions/:version/proposals", s.proposals)
	app.Put(model+"/labels/:label", s.setLabel)
	app.Delete(model+"/labels/:label", s.removeLabel)
	app.Post(model+"/rollback", s.rollback)
}

// param returns a decoded part of the path that outlives the request.
func param(c *fiber.Ctx, key string) (string, error) {
	raw := c.Params(key)
	if !strings.Contains(raw, "%") {
		return strings.Clone(raw), nil
	}
	text, err := url.PathUnescape(raw)
	if err != nil {
		return "", edgewise.Errorf("httpapi.param", edgewise.Invalid, "path segment %.200q: bad percent-encoding", raw)
	}
	return text, nil
}

// inferenceID returns the model that a path of the inference protocol names.
func (s *Server) inferenceID(c *fiber.Ctx) (edgewise.ModelID, error) {
	name, err := param(c, "model")
	if err != nil {
		return edgewise.ModelID{}, err
	}
	version, err := param(c, "version")
	if err != nil {
		return edgewise.ModelID{Name: name}, err
	}
	return s.identify(name, version)
}

// identify returns the model of a name and a version, "" for none in particular. A name that no model can have is as
// unknown as any other; a version that is neither a number nor a label makes the path one that does not exist.
func (s *Server) identify(name, version string) (edgewise.ModelID, error) {
	if edgewise.CheckName(name) != nil {
		return edgewise.ModelID{}, edgewise.Errorf("httpapi.identify", edgewise.NotFound, "Request for unknown model: '%.200s' is not found", name)
	}
	id := edgewise.ModelID{Name: name}
	if version == "" {
		return id, nil
	}
	if strings.Trim(version, "0123456789") != "" {
		return s.labelled(name, version)
	}
	var err error
	id.Version, err = strconv.ParseInt(version, 10, 64)
	if err != nil || id.Version == 0 {
		return id, edgewise.Errorf("httpapi.identify", edgewise.NotFound, "Request for unknown model: '%s' version %.40s is not found", name, version)
	}
	return id, nil
}

// adminID returns the model, and the version if the path has one, of an administration path. Errors: Invalid, naming
// the rule that is broken.
func adminID(c *fiber.Ctx) (edgewise.ModelID, error) {
	const op = "httpapi.adminID"
	name, err := param(c, "model")
	if err != nil {
		return edgewise.ModelID{}, err
	}
	if err := edgewise.CheckName(name); err != nil {
		return edgewise.ModelID{}, edgewise.Errorf(op, edgewise.Invalid, "%w", err)
	}
	id := edgewise.ModelID{Name: name}
	if version := c.Params("version"); version != "" {
		id.Version, err = parseVersion(version)
	}
	return id, err
}

func parseVersion(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || text[0] == '+' {
		return 0, edgewise.Errorf("httpapi.parseVersion", edgewise.Invalid, "version %.40q: want a number from 1 to %d", strings.Clone(text), int64(math.MaxInt64))
	}
	return n, nil
}

// adminLabel returns the label of an administration path. Errors: Invalid, naming the rule that is broken.
func adminLabel(c *fiber.Ctx) (string, error) {
	label, err := param(c, "label")
	if err != nil {
		return "", err
	}
	return label, checkLabel(label)
}

func checkLabel(label string) error {
	if err := edgewise.CheckLabel(label); err != nil {
		return edgewise.Errorf("httpapi.checkLabel", edgewise.Invalid, "%w", err)
	}
	return nil
}
