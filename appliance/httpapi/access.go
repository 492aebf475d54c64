package httpapi

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
)

// rule says who may use a route. A route without a rule needs every right; a test finds it.
type rule struct {
	method, path string          // as in the router
	rights       edgewise.Rights // any one of them is enough; 0: any person who is logged in
	public       bool            // nobody need be known
	confirm      bool            // a person must have given the password a moment ago
	runs         bool            // it runs a model or a step, which people may do only so often
	action       string          // in the audit log; empty: it changes nothing that the log is about
}

// use is what looking at a model to run it needs.
const use = edgewise.Read | edgewise.Infer

// rules is the one table of who may do what.
var rules = []rule{
	{method: "GET", path: "/metrics", rights: edgewise.Read},

	{method: "GET", path: "/v2", rights: use},
	{method: "GET", path: "/v2/health/live", public: true},
	{method: "GET", path: "/v2/health/ready", public: true},
	{method: "GET", path: "/v2/models/stats", rights: edgewise.Read},
	{method: "GET", path: "/v2/logging", rights: edgewise.Read},
	{method: "POST", path: "/v2/logging", rights: edgewise.Admin, action: "logging.change"},
	{method: "GET", path: "/v2/trace/setting", rights: edgewise.Read},
	{method: "POST", path: "/v2/trace/setting", rights: edgewise.Operate, action: "tracing.change"},
	{method: "GET", path: "/v2/models/:model/trace/setting", rights: edgewise.Read},
	{method: "POST", path: "/v2/models/:model/trace/setting", rights: edgewise.Operate, action: "tracing.change"},
	{method: "GET", path: "/v2/models/:model", rights: use},
	{method: "GET", path: "/v2/models/:model/ready", rights: use},
	{method: "GET", path: "/v2/models/:model/config", rights: use},
	{method: "GET", path: "/v2/models/:model/stats", rights: use},
	{method: "POST", path: "/v2/models/:model/infer", rights: edgewise.Infer, runs: true},
	{method: "POST", path: "/v2/models/:model/generate", rights: edgewise.Infer, runs: true},
	{method: "POST", path: "/v2/models/:model/generate_stream", rights: edgewise.Infer, runs: true},
	{method: "GET", path: "/v2/models/:model/versions/:version", rights: use},
	{method: "GET", path: "/v2/models/:model/versions/:version/ready", rights: use},
	{method: "GET", path: "/v2/models/:model/versions/:version/config", rights: use},
	{method: "GET", path: "/v2/models/:model/versions/:version/stats", rights: use},
	{method: "POST", path: "/v2/models/:model/versions/:version/infer", rights: edgewise.Infer, runs: true},
	{method: "POST", path: "/v2/models/:model/versions/:version/generate", rights: edgewise.Infer, runs: true},
	{method: "POST", path: "/v2/models/:model/versions/:version/generate_stream", rights: edgewise.Infer, runs: true},
	{method: "GET", path: "/v2/:kind/status", rights: edgewise.Infer},
	{method: "GET", path: "/v2/:kind/region/:region/status", rights: edgewise.Infer},
	{method: "POST", path: "/v2/:kind/region/:region/register", rights: edgewise.Infer},
	{method: "POST", path: "/v2/:kind/unregister", rights: edgewise.Infer},
	{method: "POST", path: "/v2/:kind/register", rights: edgewise.Infer},
	{method: "POST", path: "/v2/:kind/region/:region/unregister", rights: edgewise.Infer},
	{method: "POST", path: "/v2/repository/index", rights: edgewise.Read},
	{method: "POST", path: "/v2/repository/models/:model/load", rights: edgewise.Operate, action: "model.load"},
	{method: "POST", path: "/v2/repository/models/:model/unload", rights: edgewise.Operate, action: "model.unload"},
	{method: "POST", path: "/v2/repository/:repository/index", rights: edgewise.Read},
	{method: "POST", path: "/v2/repository/:repository/models/:model/load", rights: edgewise.Operate},
	{method: "POST", path: "/v2/repository/:repository/models/:model/unload", rights: edgewise.Operate},

	{method: "GET", path: "/api/v1/openapi.yaml", public: true},
	{method: "GET", path: "/api/v1/setup", public: true},
	{method: "POST", path: "/api/v1/setup/claim", public: true, action: "box.claim"},
	{method: "PUT", path: "/api/v1/setup/steps/:step", rights: edgewise.Admin},
	{method: "GET", path: "/api/v1/session", public: true},
	{method: "POST", path: "/api/v1/session", public: true, action: "session.login"},
	{method: "DELETE", path: "/api/v1/session", action: "session.logout"},
	{method: "PUT", path: "/api/v1/session/password", action: "session.password"},
	{method: "POST", path: "/api/v1/session/confirm", action: "session.confirm"},
	{method: "GET", path: "/api/v1/sessions"},
	{method: "DELETE", path: "/api/v1/sessions/:id", action: "session.end"},
	{method: "GET", path: "/api/v1/users", rights: edgewise.Admin},
	{method: "POST", path: "/api/v1/users", rights: edgewise.Admin, confirm: true, action: "user.create"},
	{method: "PATCH", path: "/api/v1/users/:user", rights: edgewise.Admin, confirm: true, action: "user.change"},
	{method: "DELETE", path: "/api/v1/users/:user", rights: edgewise.Admin, confirm: true, action: "user.delete"},
	{method: "GET", path: "/api/v1/keys", rights: edgewise.Admin},
	{method: "POST", path: "/api/v1/keys", rights: edgewise.Admin, confirm: true, action: "key.create"},
	{method: "PATCH", path: "/api/v1/keys/:id", rights: edgewise.Admin, confirm: true, action: "key.change"},
	{method: "DELETE", path: "/api/v1/keys/:id", rights: edgewise.Admin, action: "key.delete"},
	{method: "GET", path: "/api/v1/audit", rights: edgewise.Admin},
	{method: "GET", path: "/api/v1/audit/verification", rights: edgewise.Admin},

	{method: "GET", path: "/api/v1/system", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/system/update", rights: edgewise.Read},
	{method: "POST", path: "/api/v1/system/update", rights: edgewise.Admin, confirm: true, action: "system.update"},
	{method: "DELETE", path: "/api/v1/system/update", rights: edgewise.Admin, action: "system.update_cancel"},
	{method: "POST", path: "/api/v1/system/update/install", rights: edgewise.Admin, action: "system.update_install"},
	{method: "POST", path: "/api/v1/system/rollback", rights: edgewise.Admin, confirm: true, action: "system.rollback"},
	{method: "POST", path: "/api/v1/system/restart", rights: edgewise.Admin, action: "system.restart"},
	{method: "POST", path: "/api/v1/system/factory-reset", rights: edgewise.Admin, confirm: true, action: "system.factory_reset"},
	{method: "GET", path: "/api/v1/system/failed-boot/log", rights: edgewise.Admin},
	{method: "DELETE", path: "/api/v1/system/failed-boot", rights: edgewise.Admin, action: "system.failed_boot"},
	{method: "DELETE", path: "/api/v1/system/safe-start", rights: edgewise.Operate, action: "system.safe_start"},
	{method: "GET", path: "/api/v1/devices", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/settings", rights: edgewise.Read},
	{method: "PATCH", path: "/api/v1/settings", rights: edgewise.Admin, action: "settings.change"},
	{method: "GET", path: "/api/v1/configuration", rights: edgewise.Admin},
	{method: "GET", path: "/api/v1/tls", rights: edgewise.Read},
	{method: "PUT", path: "/api/v1/tls", rights: edgewise.Admin, confirm: true, action: "tls.set"},
	{method: "DELETE", path: "/api/v1/tls", rights: edgewise.Admin, confirm: true, action: "tls.reset"},
	{method: "GET", path: "/api/v1/tls/authority", public: true},

	{method: "GET", path: "/api/v1/models", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/models/:model", rights: edgewise.Read},
	{method: "PATCH", path: "/api/v1/models/:model", rights: edgewise.Operate, action: "model.notes"},
	{method: "GET", path: "/api/v1/models/:model/dependants", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/models/:model/comparison", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/models/:model/deployments", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/models/:model/versions/:version", rights: edgewise.Read},
	{method: "PATCH", path: "/api/v1/models/:model/versions/:version", rights: edgewise.Operate, action: "version.notes"},
	{method: "GET", path: "/api/v1/models/:model/versions/:version/graph", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/models/:model/versions/:version/file", rights: edgewise.Operate},
	{method: "GET", path: "/api/v1/deployments", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/ensembles", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/drafts", rights: edgewise.Operate},
	{method: "POST", path: "/api/v1/drafts", rights: edgewise.Operate},
	{method: "GET", path: "/api/v1/drafts/:id", rights: edgewise.Operate},
	{method: "PUT", path: "/api/v1/drafts/:id", rights: edgewise.Operate},
	{method: "DELETE", path: "/api/v1/drafts/:id", rights: edgewise.Operate, action: "draft.delete"},
	{method: "POST", path: "/api/v1/drafts/:id/validation", rights: edgewise.Operate},
	{method: "POST", path: "/api/v1/drafts/:id/trace", rights: edgewise.Operate, runs: true},
	{method: "POST", path: "/api/v1/drafts/:id/publish", rights: edgewise.Operate, action: "draft.publish"},
	{method: "GET", path: "/api/v1/steps/gallery", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/steps/library", rights: edgewise.Read},
	{method: "POST", path: "/api/v1/steps/trial", rights: edgewise.Operate, runs: true},
	{method: "POST", path: "/api/v1/steps/:model/versions", rights: edgewise.Operate, action: "step.deploy"},
	{method: "GET", path: "/api/v1/statistics", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/events", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/logs", rights: edgewise.Operate},
	{method: "GET", path: "/api/v1/requests", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/requests/:number", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/backup", rights: edgewise.Admin, confirm: true, action: "backup.read"},
	{method: "DELETE", path: "/api/v1/models/:model", rights: edgewise.Operate, action: "model.delete"},
	{method: "POST", path: "/api/v1/models/:model/versions", rights: edgewise.Operate, action: "version.push"},
	{method: "DELETE", path: "/api/v1/models/:model/versions/:version", rights: edgewise.Operate, action: "version.delete"},
	{method: "GET", path: "/api/v1/models/:model/versions/:version/inspection", rights: edgewise.Read},
	{method: "GET", path: "/api/v1/models/:model/versions/:version/proposals", rights: edgewise.Read},
	{method: "PUT", path: "/api/v1/models/:model/labels/:label", rights: edgewise.Operate, action: "label.set"},
	{method: "DELETE", path: "/api/v1/models/:model/labels/:label", rights: edgewise.Operate, action: "label.remove"},
	{method: "GET", path: "/api/v1/uploads", rights: edgewise.Operate},
	{method: "OPTIONS", path: "/api/v1/uploads", public: true},
	{method: "POST", path: "/api/v1/uploads", rights: edgewise.Operate, action: "upload.create"},
	{method: "GET", path: "/api/v1/uploads/:id", rights: edgewise.Operate},
	{method: "HEAD", path: "/api/v1/uploads/:id", rights: edgewise.Operate},
	{method: "PATCH", path: "/api/v1/uploads/:id", rights: edgewise.Operate},
	{method: "DELETE", path: "/api/v1/uploads/:id", rights: edgewise.Operate, action: "upload.cancel"},
	{method: "GET", path: "/api/v1/jobs", rights: edgewise.Operate},
	{method: "GET", path: "/api/v1/jobs/:id", rights: edgewise.Operate},
	{method: "DELETE", path: "/api/v1/jobs/:id", rights: edgewise.Operate, action: "job.discard"},
	{method: "POST", path: "/api/v1/jobs/:id/activate", rights: edgewise.Operate, action: "job.activate"},
	{method: "POST", path: "/api/v1/models/:model/rollback", rights: edgewise.Operate, action: "label.rollback"},
}

// everything is the rule of routes without one.
var everything = rule{rights: edgewise.Admin}

// page is the rule of what the page is made of: files that hold no secret.
var page = rule{public: true}

// Rule is what the table says of a route.
type Rule struct {
	Rights  edgewise.Rights // any one of them is enough; 0: any person who is logged in
	Public  bool            // nobody need be known
	Confirm bool            // a person must have given the password a moment ago
}

// RuleOf returns what the table says of a route; ok is false when it says nothing.
func RuleOf(method, path string) (rule Rule, ok bool) {
	for i := range rules {
		if r := &rules[i]; r.method == method {
			if _, ok := r.match([]byte(path)); ok {
				return Rule{r.rights, r.public, r.confirm}, true
			}
		}
	}
	return Rule{}, false
}

// access finds the rule of a request. It is not changed once it is made.
type access struct {
	rules map[accessKey][]*rule
}

// accessKey is what rules that may match have in common.
type accessKey struct {
	method   string
	segments int
}

func newAccess() access {
	a := access{rules: map[accessKey][]*rule{}}
	for i := range rules {
		r := &rules[i]
		key := accessKey{r.method, strings.Count(r.path, "/")}
		a.rules[key] = append(a.rules[key], r)
	}
	return a
}

// find returns the rule of a request and the model that its path names, percent-encoded as it came; "" for none.
func (a access) find(header *fasthttp.RequestHeader) (r *rule, model []byte) {
	path, _, _ := bytes.Cut(header.RequestURI(), []byte{'?'})
	method := header.Method()
	if r, model = a.match(method, path); r != nil {
		return r, model
	}
	if header.IsHead() {
		if r, model = a.match([]byte("GET"), path); r != nil {
			return r, model
		}
	}
	if (header.IsGet() || header.IsHead()) && !private(path) {
		return &page, nil
	}
	return &everything, nil
}

func (a access) match(method, path []byte) (*rule, []byte) {
	for _, r := range a.rules[accessKey{string(method), bytes.Count(path, []byte{'/'})}] {
		if model, ok := r.match(path); ok {
			return r, model
		}
	}
	return nil, nil
}

// private tells whether a path belongs to an interface and not to the page.
func private(path []byte) bool {
	for _, prefix := range []string{"/v2", "/api", "/metrics"} {
		if rest, ok := bytes.CutPrefix(path, []byte(prefix)); ok && (len(rest) == 0 || rest[0] == '/') {
			return true
		}
	}
	return false
}

// match compares segment by segment, as the router does; a parameter stands for a segment that is not empty. The rules with
// fixed segments stand before those with a parameter in their place.
func (r *rule) match(path []byte) (model []byte, ok bool) {
	pattern := r.path
	for pattern != "" {
		var want string
		var got []byte
		want, pattern = segment(pattern)
		got, path = segment(path)
		switch {
		case want == ":model" && len(got) > 0:
			model = got
		case want != "" && want[0] == ':' && len(got) > 0:
		case string(got) != want:
			return nil, false
		}
	}
	return model, len(path) == 0
}

// segment cuts the first segment, which begins with a slash, off a path.
func segment[T string | []byte](path T) (first, rest T) {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			return path[1:i], path[i:]
		}
	}
	return path[min(1, len(path)):], path[len(path):]
}
