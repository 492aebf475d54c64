package httpapi

import (
	"bytes"
	"context"
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

// visit is what is known of a request besides its content: who asks, under which rule, and what the audit log says of it.
type visit struct {
	who    *edgewise.Principal // nil: nobody that is known
	rule   *rule
	cookie bool // who was recognised by the cookie
	done   func()

	body *stream // what is left to read of it

	actor, target, detail string // for the audit log; filled in by handlers
}

// visitOf returns the visit of the request in progress on a connection.
func visitOf(ctx *fasthttp.RequestCtx) *visit { return &connOf(ctx).visit }

// streamOf returns the body of the request in progress.
func streamOf(c *fiber.Ctx) *stream { return visitOf(c.Context()).body }

// who returns who asks, nil when nobody is known.
func who(c *fiber.Ctx) *edgewise.Principal { return visitOf(c.Context()).who }

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

// authorize fills in v and decides from the headers alone whether a request goes on. Errors: Unauthenticated, Denied, Busy.
func (s *Server) authorize(ctx *fasthttp.RequestCtx, v *visit) error {
	rule, model := s.access.find(&ctx.Request.Header)
	*v = visit{rule: rule}
	if s.deps.Accounts == nil || s.deps.Open {
		v.who = openVisitor
		return nil
	}
	if rule == &page {
		return nil
	}
	err := s.recognise(ctx, v)
	if rule.public || s.metricsPublic(rule) {
		return nil
	}
	if err != nil {
		return err
	}
	if v.who == nil {
		return s.nobody()
	}
	if err := s.permit(v, model); err != nil {
		return err
	}
	return s.vouch(ctx, v)
}

// close ends a visit when its request is answered.
func (s *Server) close(ctx *fasthttp.RequestCtx, v *visit) {
	if v.done != nil {
		v.done()
	}
	s.audit(ctx, v)
}

// metricsPublic tells whether this is the metrics page, and that is open by choice.
func (s *Server) metricsPublic(r *rule) bool {
	return r.path == "/metrics" && s.deps.MetricsPublic != nil && s.deps.MetricsPublic()
}

// nobody is the error for a request without credentials.
func (s *Server) nobody() error {
	err := edgewise.Errorf("httpapi.authorize", edgewise.Unauthenticated, "this needs an API key, as Authorization: Bearer ek_..., or a login")
	err.Reason = "login_required"
	if !s.deps.Accounts.Claimed() {
		err.Err, err.Reason = errorText("this box has no users yet: open its page and claim it with the code on its console, or give an API key as Authorization: Bearer ek_..."), "setup_required"
	}
	return err
}

type errorText string

func (e errorText) Error() string { return string(e) }

// recognise finds out who asks. v.who stays nil when there are no credentials.
func (s *Server) recognise(ctx *fasthttp.RequestCtx, v *visit) error {
	header := &ctx.Request.Header
	if given := header.Peek(fiber.HeaderAuthorization); len(given) > 0 {
		return s.bearer(v, given, loopback(ctx))
	}
	token := header.Cookie(s.cookieName(ctx))
	if len(token) == 0 || fromElsewhere(header) {
		return nil
	}
	var err error
	v.who, err = s.deps.Accounts.Person(string(token))
	v.cookie = v.who != nil
	return err
}

// bearer finds out who asks with the value of an Authorization header.
func (s *Server) bearer(v *visit, given []byte, fromThisDevice bool) (err error) {
	kind, secret, _ := strings.Cut(string(given), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return edgewise.Errorf("httpapi.bearer", edgewise.Unauthenticated, "authorization of the kind %.20q is not taken: want Bearer and an API key", kind)
	}
	v.who, v.done, err = s.deps.Accounts.Bearer(strings.TrimSpace(secret), fromThisDevice)
	return err
}

// fromElsewhere tells whether a browser says that a page of another site makes it ask.
func fromElsewhere(header *fasthttp.RequestHeader) bool {
	site := header.Peek("Sec-Fetch-Site")
	return len(site) > 0 && string(site) != "same-origin" && string(site) != "none"
}

// permit decides whether who asks may.
func (s *Server) permit(v *visit, model []byte) error {
	const op = "httpapi.permit"
	if v.rule.rights != 0 && v.who.Rights&v.rule.rights == 0 {
		err := edgewise.Errorf(op, edgewise.Denied, "%s may not do this: it needs the right %s", v.who.Actor(), strings.Join(v.rule.rights.Names(), " or "))
		err.Reason = "right_missing"
		return err
	}
	if v.rule.rights == 0 && v.who.Kind != "person" {
		err := edgewise.Errorf(op, edgewise.Denied, "this is for people who are logged in, not for %s", v.who.Actor())
		err.Reason = "right_missing"
		return err
	}
	return mayName(v, model)
}

// vouch decides whether it is who asks, and not a page of somebody else or a person that left a browser open, and whether the
// person does it too often.
func (s *Server) vouch(ctx *fasthttp.RequestCtx, v *visit) error {
	if v.cookie && !safe(ctx) {
		if err := s.deps.Accounts.CheckCSRF(v.who, string(ctx.Request.Header.Peek(csrfHeader))); err != nil {
			return err
		}
	}
	if v.rule.confirm {
		return s.deps.Accounts.Confirmed(v.who)
	}
	if v.rule.runs && v.cookie {
		var err error
		v.done, err = s.deps.Accounts.Ask(v.who)
		return err
	}
	return nil
}

// mayName refuses a key that is bound to models everything that is not about one of them, but for what the box is.
func mayName(v *visit, model []byte) error {
	if len(v.who.Models) == 0 || v.rule.path == "/v2" {
		return nil
	}
	name, err := url.PathUnescape(string(model))
	if err == nil && v.who.MayName(name) {
		return nil
	}
	denied := edgewise.Errorf("httpapi.mayName", edgewise.Denied, "%s is bound to the models %s", v.who.Actor(), strings.Join(v.who.Models, ", "))
	denied.Reason = "right_missing"
	return denied
}

func safe(ctx *fasthttp.RequestCtx) bool {
	return ctx.IsGet() || ctx.IsHead() || ctx.IsOptions()
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
func (s *Server) audit(ctx *fasthttp.RequestCtx, v *visit) {
	status := ctx.Response.StatusCode()
	if v.rule.action == "" || s.deps.Accounts == nil || status == fasthttp.StatusTooManyRequests || v.who == nil && !v.rule.public {
		return
	}
	e := admin.AuditEntry{Actor: v.actor, Address: address(ctx), Action: v.rule.action, Target: v.target, Detail: v.detail}
	if e.Actor == "" {
		e.Actor = v.who.Actor()
	}
	if e.Target == "" {
		if _, model := s.access.find(&ctx.Request.Header); len(model) > 0 {
			e.Target = string(model)
		}
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

// guardHeaders sets what every answer of the administration says to browsers and caches.
func guardHeaders(ctx *fasthttp.RequestCtx) {
	if bytes.HasPrefix(ctx.Path(), []byte("/api/")) {
		ctx.Response.Header.Set(fiber.HeaderCacheControl, "no-store")
		ctx.Response.Header.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	}
}
