package httpapi

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

// Names of the session's cookie. The prefix makes a browser take it over TLS and for this host alone.
const (
	secureCookie = "__Host-edgewise"
	plainCookie  = "edgewise"

	csrfHeader = "X-CSRF-Token"
)

// state is what the server knows of the request in progress on a connection.
type state struct {
	match                             // its route
	caller        *edgewise.Principal // nil: not known
	cookie        bool                // the caller was recognised by the cookie
	done          func()              // ends the caller's request; nil: nothing to end
	origin        []byte              // of the page of another site that asks; nil: none
	originAllowed bool                // that page may read the answer
	body          *stream

	counted bool // it is an inference, and the engine counts it

	actor, target, detail string // for the audit log; filled in by handlers
}

// stateOf returns the state of the request in progress on a connection.
func stateOf(ctx *fasthttp.RequestCtx) *state { return &connOf(ctx).state }

// streamOf returns the body of the request in progress.
func streamOf(c *fiber.Ctx) *stream { return stateOf(c.Context()).body }

// who returns the caller, nil when it is not known.
func who(c *fiber.Ctx) *edgewise.Principal { return stateOf(c.Context()).caller }

// as returns a context for work that outlives the connection and carries who asked for it.
func (s *Server) as(c *fiber.Ctx) context.Context {
	return edgewise.WithPrincipal(s.base, who(c))
}

// asked returns ctx with who asked; everybody is nobody in particular.
func asked(ctx context.Context, who *edgewise.Principal) context.Context {
	if who != openVisitor {
		return edgewise.WithPrincipal(ctx, who)
	}
	return ctx
}

// openVisitor is everybody when accounts are off.
var openVisitor = &edgewise.Principal{Kind: "open", Rights: edgewise.AllRights}

// authorize finds out who calls, and decides from the headers and the route alone whether a request goes on. Errors:
// Unauthenticated, Denied, Busy.
func (s *Server) authorize(ctx *fasthttp.RequestCtx, r *state) error {
	if err := r.checkRestriction(&ctx.Request.Header); err != nil {
		return err
	}
	if s.deps.Accounts == nil || s.deps.Open {
		r.caller = openVisitor
		return s.permitOrigin(&ctx.Request.Header, r)
	}
	if r.route == s.router.page {
		return nil
	}
	err := s.recognise(ctx, r)
	if err := s.permitOrigin(&ctx.Request.Header, r); err != nil {
		return err
	}
	if r.public || s.metricsPublic(r.route) {
		return nil
	}
	if err != nil {
		return err
	}
	if r.caller == nil {
		return s.nobody()
	}
	if err := r.permit(); err != nil {
		return err
	}
	return s.checkSession(ctx, r)
}

// close ends a request that is answered.
func (s *Server) close(ctx *fasthttp.RequestCtx, r *state) {
	switch {
	case r.done == nil:
	case ctx.Response.IsBodyStream():
		connOf(ctx).held.done.Store(&r.done) // the request goes on while its answer is written
	default:
		r.done()
	}
	s.audit(ctx, r)
}

// metricsPublic tells whether this is the metrics page, and the configuration opens it to everybody.
func (s *Server) metricsPublic(r *route) bool {
	return r.path == "/metrics" && s.deps.MetricsPublic != nil && s.deps.MetricsPublic()
}

// nobody is the error for a request without credentials.
func (s *Server) nobody() error {
	err := edgewise.Errorf("httpapi.authorize", edgewise.Unauthenticated, "this needs an API key, as Authorization: "+
		"Bearer ek_..., or a login")
	err.Reason = "login_required"
	if !s.deps.Accounts.Claimed() {
		err.Err, err.Reason = errorText("this box has no users yet: open its page and claim it with the code on its "+
			"console, or give an API key as Authorization: Bearer ek_..."), "setup_required"
	}
	return err
}

type errorText string

func (e errorText) Error() string { return string(e) }

// recognise finds out who calls. The caller stays nil when there are no credentials.
func (s *Server) recognise(ctx *fasthttp.RequestCtx, r *state) error {
	header := &ctx.Request.Header
	if given := header.Peek(fiber.HeaderAuthorization); len(given) > 0 {
		return s.bearer(r, given, loopback(ctx))
	}
	token := header.Cookie(s.cookieName(ctx))
	if len(token) == 0 || r.origin != nil || fromElsewhere(header) {
		return nil
	}
	var err error
	r.caller, err = s.deps.Accounts.Person(string(token))
	r.cookie = r.caller != nil
	return err
}

// bearer finds out who calls with the value of an Authorization header.
func (s *Server) bearer(r *state, given []byte, fromThisDevice bool) (err error) {
	kind, secret, _ := strings.Cut(string(given), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return edgewise.Errorf("httpapi.bearer", edgewise.Unauthenticated, "authorization of the kind %.20q is not taken: "+
			"want Bearer and an API key", kind)
	}
	r.caller, r.done, err = s.deps.Accounts.Bearer(strings.TrimSpace(secret), fromThisDevice)
	return err
}

// fromElsewhere tells whether a browser says that a page of another site makes it ask.
func fromElsewhere(header *fasthttp.RequestHeader) bool {
	site := header.Peek("Sec-Fetch-Site")
	return len(site) > 0 && string(site) != "same-origin" && string(site) != "none"
}

// checkRestriction refuses a request without the header that its route needs.
func (r *state) checkRestriction(header *fasthttp.RequestHeader) error {
	need := r.restriction
	if need == nil || subtle.ConstantTimeCompare(header.Peek(need.Header), []byte(need.Value)) == 1 {
		return nil
	}
	return edgewise.Errorf("httpapi.authorize", edgewise.Denied, "This API is restricted, expecting header '%s'",
		need.Header)
}

// permit decides whether the caller has the right that the route needs.
func (r *state) permit() error {
	const op = "httpapi.permit"
	if r.rights != 0 && r.caller.Rights&r.rights == 0 {
		err := edgewise.Errorf(op, edgewise.Denied, "%s may not do this: it needs the right %s",
			r.caller.Actor(), strings.Join(r.rights.Names(), " or "))
		err.Reason = "right_missing"
		return err
	}
	if r.rights == 0 && r.caller.Kind != "person" {
		err := edgewise.Errorf(op, edgewise.Denied, "this is for people who are logged in, not for %s", r.caller.Actor())
		err.Reason = "right_missing"
		return err
	}
	return r.permitModel()
}

// permitModel refuses to a key that is bound to models everything that is not about one of them, but for what the
// server is.
func (r *state) permitModel() error {
	if len(r.caller.Models) == 0 || r.aboutServer {
		return nil
	}
	name, err := url.PathUnescape(string(r.value("model")))
	if err == nil && r.caller.MayName(name) {
		return nil
	}
	denied := edgewise.Errorf("httpapi.permitModel", edgewise.Denied, "%s is bound to the models %s",
		r.caller.Actor(), strings.Join(r.caller.Models, ", "))
	denied.Reason = "right_missing"
	return denied
}

// checkSession decides whether a request with a cookie comes from the person and not from a page of somebody else,
// whether the person is still there, and whether this happens too often.
func (s *Server) checkSession(ctx *fasthttp.RequestCtx, r *state) error {
	if r.cookie && !isSafe(&ctx.Request.Header) {
		if err := s.deps.Accounts.CheckCSRF(r.caller, string(ctx.Request.Header.Peek(csrfHeader))); err != nil {
			return err
		}
	}
	if r.confirm {
		return s.deps.Accounts.Confirmed(r.caller)
	}
	if r.runs && r.cookie {
		var err error
		r.done, err = s.deps.Accounts.Ask(r.caller)
		return err
	}
	return nil
}

// cookieName is the name of the session's cookie on this connection.
func (s *Server) cookieName(ctx *fasthttp.RequestCtx) string {
	if secure(ctx) {
		return secureCookie
	}
	return plainCookie
}

// secure tells whether a request came over TLS.
func secure(ctx *fasthttp.RequestCtx) bool {
	c, ok := connOf(ctx).Conn.(interface{ Secure() bool })
	return ok && c.Secure()
}

// address returns the IP address that a request comes from.
func address(ctx *fasthttp.RequestCtx) string {
	host, _, err := net.SplitHostPort(ctx.RemoteAddr().String())
	if err != nil {
		return ctx.RemoteAddr().String()
	}
	return host
}

// loopback tells whether a request comes from the box itself.
func loopback(ctx *fasthttp.RequestCtx) bool {
	ip, err := netip.ParseAddr(address(ctx))
	return err == nil && ip.Unmap().IsLoopback()
}

// audit writes a line about a request that changed something, or tried to.
func (s *Server) audit(ctx *fasthttp.RequestCtx, r *state) {
	status := ctx.Response.StatusCode()
	if r.action == "" || s.deps.Accounts == nil || status == fasthttp.StatusTooManyRequests || r.caller == nil &&
		!r.public {
		return
	}
	e := admin.AuditEntry{Actor: r.actor, Address: address(ctx), Action: r.action, Target: r.target, Detail: r.detail}
	if e.Actor == "" {
		e.Actor = r.caller.Actor()
	}
	if e.Target == "" {
		e.Target = string(r.value("model"))
	}
	if status >= fasthttp.StatusBadRequest {
		var body kserve.ErrorBody
		if json.Unmarshal(ctx.Response.Body(), &body) != nil || body.Error == "" {
			body.Error = fasthttp.StatusMessage(status)
		}
		e.Error = body.Error
	}
	if err := s.deps.Accounts.Record(e); err != nil {
		s.deps.Log.Error("the audit log was not written", "action", e.Action, "actor", e.Actor, "error", err)
	}
}
