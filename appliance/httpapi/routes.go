package httpapi

import (
	"context"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
)

// route is one line of the route table: everything that the server knows of a route. The zero value of what is not set
// takes any person who is logged in, and a small body.
type route struct {
	method, path string // as in router: a segment that begins with ':' stands for any that is not empty
	handler      fiber.Handler
	rights       edgewise.Rights // any one of them is enough; 0: any person who is logged in
	public       bool            // the caller need not be known
	confirm      bool            // a person must have given the password a moment ago
	runs         bool            // it runs a model or a step, which people may do only so often
	aboutServer  bool            // it is about the server itself: keys that are bound to models may use it, too
	action       string          // in the audit log; empty: it changes nothing that the log is about
	body         bodyKind        // bounds the body
	stream       bool            // the handler reads the body itself
	api          string          // Triton's name of the group of routes that a header may be needed for; empty: none

	// What New derives.
	params      []string     // names of the segments that begin with ':'
	limit       limit        // of the body
	restriction *Restriction // nil: no header is needed
}

// inferenceAPI is the group of the routes that run a model. Each of their requests is counted.
const inferenceAPI = "inference"

// use is what looking at a model to run it needs.
const use = edgewise.Read | edgewise.Infer

func get(path string, handler fiber.Handler) *route    { return newRoute("GET", path, handler) }
func post(path string, handler fiber.Handler) *route   { return newRoute("POST", path, handler) }
func put(path string, handler fiber.Handler) *route    { return newRoute("PUT", path, handler) }
func patch(path string, handler fiber.Handler) *route  { return newRoute("PATCH", path, handler) }
func remove(path string, handler fiber.Handler) *route { return newRoute("DELETE", path, handler) }

func newRoute(method, path string, handler fiber.Handler) *route {
	return &route{method: method, path: path, handler: handler}
}

// The methods below complete a line of the table and return it.

func (r *route) may(rights edgewise.Rights) *route { r.rights = rights; return r }
func (r *route) forAll() *route                    { r.public = true; return r }
func (r *route) confirmed() *route                 { r.confirm = true; return r }
func (r *route) running() *route                   { r.runs = true; return r }
func (r *route) ofServer() *route                  { r.aboutServer = true; return r }
func (r *route) audited(action string) *route      { r.action = action; return r }
func (r *route) takes(body bodyKind) *route        { r.body = body; return r }
func (r *route) streamed(body bodyKind) *route     { r.body, r.stream = body, true; return r }

// group puts routes into a group that a header may be needed for.
func group(api string, routes ...*route) []*route {
	for _, r := range routes {
		r.api = api
	}
	return routes
}

// routeTable is the one table of routes. Those whose part of Deps is missing are not in it.
func (s *Server) routeTable() []*route {
	table := []*route{get("/", s.root).forAll()}
	for _, part := range []struct {
		there  bool
		routes func() []*route
	}{
		{s.deps.Metrics != nil, s.metricsRoutes},
		{true, s.serverRoutes},
		{s.deps.Logging != nil, s.loggingRoutes},
		{s.deps.Tracing != nil, s.tracingRoutes},
		{true, s.modelRoutes},
		{true, s.sharedMemoryRoutes},
		{true, s.repositoryRoutes},
		{true, s.storeRoutes},
		{true, s.sessionRoutes},
		{s.deps.Accounts != nil, s.accountRoutes},
		{s.deps.Box != nil, s.boxRoutes},
		{s.deps.System != nil, s.systemRoutes},
		{s.deps.Uploads != nil, s.uploadRoutes},
		{s.deps.Catalog != nil, s.catalogRoutes},
		{s.deps.Editor != nil, s.editorRoutes},
		{s.deps.Activity != nil, s.activityRoutes},
	} {
		if part.there {
			table = append(table, part.routes()...)
		}
	}
	return table
}

func (s *Server) metricsRoutes() []*route {
	return []*route{get("/metrics", s.metrics).may(edgewise.Read)}
}

func (s *Server) serverRoutes() []*route {
	return append(
		group("metadata", get("/v2", s.serverMetadata).may(use).ofServer()),
		group("health",
			get("/v2/health/live", s.live).forAll(),
			get("/v2/health/ready", s.ready).forAll())...)
}

func (s *Server) loggingRoutes() []*route {
	return group("logging",
		get("/v2/logging", s.logSettings).may(edgewise.Read),
		post("/v2/logging", s.changeLogSettings).may(edgewise.Admin).audited("logging.change"))
}

func (s *Server) tracingRoutes() []*route {
	const server, model = "/v2/trace/setting", "/v2/models/:model/trace/setting"
	return group("trace",
		get(server, s.traceSettings).may(edgewise.Read),
		post(server, s.changeTraceSettings).may(edgewise.Operate).audited("tracing.change"),
		get(model, s.traceSettings).may(edgewise.Read),
		post(model, s.changeTraceSettings).may(edgewise.Operate).audited("tracing.change"))
}

func (s *Server) modelRoutes() []*route {
	all := group("statistics", get("/v2/models/stats", s.statistics).may(edgewise.Read))
	for _, model := range []string{"/v2/models/:model", "/v2/models/:model/versions/:version"} {
		all = append(all, group("metadata", get(model, s.modelMetadata).may(use))...)
		all = append(all, group("health", get(model+"/ready", s.modelReady).may(use))...)
		all = append(all, group("model-config", get(model+"/config", s.modelConfig).may(use))...)
		all = append(all, group("statistics", get(model+"/stats", s.statistics).may(use))...)
		all = append(all, group(inferenceAPI,
			post(model+"/infer", s.infer).may(edgewise.Infer).running().streamed(tensorBody),
			post(model+"/generate", s.generate).may(edgewise.Infer).running().takes(tensorBody),
			post(model+"/generate_stream", s.generateStream).may(edgewise.Infer).running().takes(tensorBody))...)
	}
	return all
}

func (s *Server) sharedMemoryRoutes() []*route {
	var all []*route
	for _, path := range []string{"", "/region/:region"} {
		const system, device = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
		all = append(all, group("shared-memory",
			get(system+path+"/status", s.regions).may(edgewise.Infer),
			post(system+path+"/register", s.registerRegion).may(edgewise.Infer),
			post(system+path+"/unregister", s.unregisterRegion).may(edgewise.Infer),
			get(device+path+"/status", s.deviceRegions).may(edgewise.Infer),
			post(device+path+"/register", s.registerDeviceRegion).may(edgewise.Infer),
			post(device+path+"/unregister", s.unregisterDeviceRegion).may(edgewise.Infer))...)
	}
	return all
}

func (s *Server) repositoryRoutes() []*route {
	const models, named = "/v2/repository/models/:model", "/v2/repository/:repository/models/:model"
	return group("model-repository",
		post("/v2/repository/index", s.repositoryIndex).may(edgewise.Read),
		post(models+"/load", s.loadModel).may(edgewise.Operate).takes(loadBody).audited("model.load"),
		post(models+"/unload", s.unloadModel).may(edgewise.Operate).audited("model.unload"),
		post("/v2/repository/:repository/index", s.repositoryIndex).may(edgewise.Read),
		post(named+"/load", s.noRepositoryName).may(edgewise.Operate),
		post(named+"/unload", s.noRepositoryName).may(edgewise.Operate))
}

// storeRoutes are about stored models, their versions and labels.
func (s *Server) storeRoutes() []*route {
	const model, version = "/api/v1/models/:model", "/api/v1/models/:model/versions/:version"
	return []*route{
		get("/api/v1/openapi.yaml", s.document).forAll(),
		get("/api/v1/models", s.listModels).may(edgewise.Read),
		get(model, s.showModel).may(edgewise.Read),
		remove(model, s.deleteModel).may(edgewise.Operate).audited("model.delete"),
		post(model+"/versions", s.upload).may(edgewise.Operate).streamed(versionBody).audited("version.push"),
		remove(version, s.deleteVersion).may(edgewise.Operate).audited("version.delete"),
		get(version+"/inspection", s.inspection).may(edgewise.Read),
		get(version+"/proposals", s.proposals).may(edgewise.Read),
		put(model+"/labels/:label", s.setLabel).may(edgewise.Operate).audited("label.set"),
		remove(model+"/labels/:label", s.removeLabel).may(edgewise.Operate).audited("label.remove"),
		post(model+"/rollback", s.rollback).may(edgewise.Operate).audited("label.rollback"),
	}
}

func (s *Server) sessionRoutes() []*route {
	return []*route{get("/api/v1/session", s.session).forAll()}
}

func (s *Server) accountRoutes() []*route {
	const admin = edgewise.Admin
	return []*route{
		post("/api/v1/session", s.login).forAll().audited("session.login"),
		remove("/api/v1/session", s.logout).audited("session.logout"),
		put("/api/v1/session/password", s.changePassword).audited("session.password"),
		post("/api/v1/session/confirm", s.confirm).audited("session.confirm"),
		get("/api/v1/sessions", s.sessions),
		remove("/api/v1/sessions/:id", s.endSession).audited("session.end"),
		post("/api/v1/setup/claim", s.claim).forAll().audited("box.claim"),
		get("/api/v1/users", answer(func() any { return s.deps.Accounts.Users() })).may(admin),
		post("/api/v1/users", s.createUser).may(admin).confirmed().audited("user.create"),
		patch("/api/v1/users/:user", s.changeUser).may(admin).confirmed().audited("user.change"),
		remove("/api/v1/users/:user", s.deleteUser).may(admin).confirmed().audited("user.delete"),
		get("/api/v1/keys", answer(func() any { return s.deps.Accounts.Keys() })).may(admin),
		post("/api/v1/keys", s.createKey).may(admin).confirmed().audited("key.create"),
		patch("/api/v1/keys/:id", s.changeKey).may(admin).confirmed().audited("key.change"),
		remove("/api/v1/keys/:id", s.deleteKey).may(admin).audited("key.delete"),
		get("/api/v1/audit", s.listAudit).may(admin),
		get("/api/v1/audit/verification", s.verifyAudit).may(admin),
	}
}

func (s *Server) boxRoutes() []*route {
	const admin = edgewise.Admin
	return []*route{
		get("/api/v1/setup", s.setup).forAll(),
		put("/api/v1/setup/steps/:step", s.finishStep).may(admin),
		get("/api/v1/system", answer(func() any { return s.deps.Box.System() })).may(edgewise.Read),
		get("/api/v1/devices", answer(func() any { return s.deps.Box.Devices() })).may(edgewise.Read),
		get("/api/v1/settings", answer(func() any { return s.deps.Box.Settings() })).may(edgewise.Read),
		patch("/api/v1/settings", s.changeSettings).may(admin).audited("settings.change"),
		get("/api/v1/configuration", answer(func() any { return s.deps.Box.Configuration() })).may(admin),
		get("/api/v1/tls", answer(func() any { return s.deps.Box.TLS() })).may(edgewise.Read),
		put("/api/v1/tls", s.setTLS).may(admin).confirmed().audited("tls.set"),
		remove("/api/v1/tls", s.resetTLS).may(admin).confirmed().audited("tls.reset"),
		get("/api/v1/tls/authority", s.authority).forAll(),
	}
}

func (s *Server) systemRoutes() []*route {
	const admin, update = edgewise.Admin, "/api/v1/system/update"
	return []*route{
		get(update, answer(func() any { return s.deps.System.Update() })).may(edgewise.Read),
		post(update, s.receiveUpdate).may(admin).confirmed().streamed(updateBody).audited("system.update"),
		remove(update, s.cancelUpdate).may(admin).audited("system.update_cancel"),
		post(update+"/install", s.installUpdate).may(admin).audited("system.update_install"),
		post("/api/v1/system/rollback", s.rollbackSystem).may(admin).confirmed().audited("system.rollback"),
		post("/api/v1/system/restart", s.restart).may(admin).audited("system.restart"),
		post("/api/v1/system/factory-reset", s.factoryReset).may(admin).confirmed().audited("system.factory_reset"),
		get("/api/v1/system/failed-boot/log", s.bootLog).may(admin),
		remove("/api/v1/system/failed-boot", s.acknowledgeBoot).may(admin).audited("system.failed_boot"),
		remove("/api/v1/system/safe-start", s.leaveSafeStart).may(edgewise.Operate).audited("system.safe_start"),
	}
}

func (s *Server) uploadRoutes() []*route {
	const operate = edgewise.Operate
	return []*route{
		newRoute("OPTIONS", uploadsPath, s.uploadOptions).forAll(),
		get(uploadsPath, s.listUploads).may(operate),
		post(uploadsPath, s.createUpload).may(operate).audited("upload.create"),
		newRoute("HEAD", uploadsPath+"/:id", s.uploadOffset).may(operate),
		get(uploadsPath+"/:id", s.getUpload).may(operate),
		patch(uploadsPath+"/:id", s.sendUpload).may(operate).streamed(uploadBody),
		remove(uploadsPath+"/:id", s.cancelUpload).may(operate).audited("upload.cancel"),
		get("/api/v1/jobs", s.listJobs).may(operate),
		get("/api/v1/jobs/:id", s.getJob).may(operate),
		remove("/api/v1/jobs/:id", s.discardJob).may(operate).audited("job.discard"),
		post("/api/v1/jobs/:id/activate", s.activateJob).may(operate).audited("job.activate"),
	}
}

func (s *Server) catalogRoutes() []*route {
	const model, version = "/api/v1/models/:model", "/api/v1/models/:model/versions/:version"
	return []*route{
		patch(model, s.changeNotes).may(edgewise.Operate).audited("model.notes"),
		get(model+"/dependants", s.dependants).may(edgewise.Read),
		get(model+"/comparison", s.comparison).may(edgewise.Read),
		get(model+"/deployments", s.modelDeployments).may(edgewise.Read),
		get(version, s.versionDetail).may(edgewise.Read),
		patch(version, s.changeNotes).may(edgewise.Operate).audited("version.notes"),
		get(version+"/graph", s.graph).may(edgewise.Read),
		get(version+"/file", s.file).may(edgewise.Operate),
		get("/api/v1/deployments", s.modelDeployments).may(edgewise.Read),
		get("/api/v1/ensembles", answer(func() any { return s.deps.Catalog.Ensembles() })).may(edgewise.Read),
		get("/api/v1/backup", s.backup).may(edgewise.Admin).confirmed().audited("backup.read"),
	}
}

// editorRoutes are about drafts of pipelines and steps.
func (s *Server) editorRoutes() []*route {
	const operate, draft = edgewise.Operate, "/api/v1/drafts/:id"
	show := s.withID(func(_ context.Context, id string) (any, error) { return s.deps.Editor.Draft(id) })
	validate := s.withID(func(_ context.Context, id string) (any, error) { return s.deps.Editor.Validate(id) })
	return []*route{
		get("/api/v1/drafts", s.drafts).may(operate),
		post("/api/v1/drafts", s.createDraft).may(operate),
		get(draft, show).may(operate),
		put(draft, s.saveDraft).may(operate),
		remove(draft, s.deleteDraft).may(operate).audited("draft.delete"),
		post(draft+"/validation", validate).may(operate),
		post(draft+"/trace", s.traceDraft).may(operate).running().takes(tensorBody),
		post(draft+"/publish", s.publishDraft).may(operate).audited("draft.publish"),
		get("/api/v1/steps/gallery", answer(func() any { return s.deps.Editor.Gallery() })).may(edgewise.Read),
		get("/api/v1/steps/library", answer(func() any { return s.deps.Editor.StepLibrary() })).may(edgewise.Read),
		post("/api/v1/steps/trial", s.tryStep).may(operate).running().takes(stepBody),
		post("/api/v1/steps/:model/versions", s.deployStep).may(operate).takes(stepBody).audited("step.deploy"),
	}
}

func (s *Server) activityRoutes() []*route {
	return []*route{
		get("/api/v1/statistics", s.history).may(edgewise.Read),
		get("/api/v1/events", s.events).may(edgewise.Read),
		get("/api/v1/logs", s.logs).may(edgewise.Operate),
		get("/api/v1/requests", s.requests).may(edgewise.Read),
		get("/api/v1/requests/:number", s.request).may(edgewise.Read),
	}
}

// answer makes a handler that answers with what look returns.
func answer(look func() any) fiber.Handler {
	return func(c *fiber.Ctx) error { return writeJSON(c, look()) }
}

// complete derives what follows from the configuration.
func (r *route) complete(cfg Config) {
	r.limit = cfg.limitOf(r.body)
	for i := range cfg.Restricted {
		for _, api := range cfg.Restricted[i].APIs {
			if r.restriction == nil && r.api != "" && r.api == api {
				r.restriction = &cfg.Restricted[i]
			}
		}
	}
}

// isProtocol tells whether the route belongs to the inference protocol.
func (r *route) isProtocol() bool { return r.api != "" }

// isAdministration tells whether the route belongs to the administration's interface.
func (r *route) isAdministration() bool { return strings.HasPrefix(r.path, "/api/") }

// Route is what the table says of a route.
type Route struct {
	Method, Path string          // a segment of Path that begins with ':' stands for any that is not empty
	Rights       edgewise.Rights // any one of them is enough; 0: any person who is logged in
	Public       bool            // the caller need not be known
	Confirm      bool            // a person must have given the password a moment ago
	Action       string          // in the audit log
}

// Routes lists what the server answers. A GET route answers HEAD, too, where there is no HEAD route of the same path.
func (s *Server) Routes() []Route {
	list := make([]Route, len(s.table))
	for i, r := range s.table {
		list[i] = Route{r.method, r.path, r.rights, r.public, r.confirm, r.action}
	}
	return list
}
