package httpapi

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
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

// Accounts is what authorization needs of the appliance. All methods are safe for concurrent use.
type Accounts interface {
	// Claimed tells whether the box has users.
	Claimed() bool
	// Person returns the person that a session's token belongs to. Errors: Unauthenticated.
	Person(token string) (*edgewise.Principal, error)
	// Bearer returns the principal that a secret belongs to; done, which may be nil, is called when the request has
	// ended. Errors: Unauthenticated, Denied, Busy.
	Bearer(secret string, loopback bool) (p *edgewise.Principal, done func(), err error)
	// HasOrigin tells whether there is a key that may be used by pages of an origin.
	HasOrigin(origin string) bool
	// Ask counts a person's request to run something; done is called when it has ended. Errors: Busy.
	Ask(p *edgewise.Principal) (done func(), err error)
	// CheckCSRF tells whether value is what the session's page was told. Errors: Denied.
	CheckCSRF(p *edgewise.Principal, value string) error
	// Confirmed returns nil within auth.ConfirmTime after a person gave the password. Errors: Denied.
	Confirmed(p *edgewise.Principal) error
	// Record writes a line to the audit log.
	Record(e admin.AuditEntry) error
}

// authorize identifies the caller, and decides from the headers and the route alone whether the request is handled.
// Errors: Unauthenticated, Denied, Busy.
func (s *Server) authorize(ctx *fasthttp.RequestCtx, r *Request) error {
	if err := r.checkRestriction(&ctx.Request.Header); err != nil {
		return err
	}
	if s.deps.Accounts == nil || s.deps.Open {
		r.Caller = everybody
		return s.permitOrigin(&ctx.Request.Header, r)
	}
	if r.route == s.router.page {
		return nil
	}
	err := s.recognise(ctx, r)
	if err := s.permitOrigin(&ctx.Request.Header, r); err != nil {
		return err
	}
	if r.route.Public || r.route.PublicIf != nil && r.route.PublicIf() {
		return nil
	}
	if err != nil {
		return err
	}
	if r.Caller == nil {
		return s.noCredentials()
	}
	if err := r.permit(); err != nil {
		return err
	}
	return s.checkSession(ctx, r)
}

// close releases what an answered request holds, once a streamed answer is written, and writes the audit log.
func (s *Server) close(ctx *fasthttp.RequestCtx, r *Request) {
	switch {
	case r.done == nil:
	case ctx.Response.IsBodyStream():
		r.conn.held.done.Store(&r.done) // the request lasts until its answer is written
	default:
		r.done()
	}
	s.audit(ctx, r)
}

// noCredentials is the error for a request without credentials.
func (s *Server) noCredentials() error {
	err := edgewise.Errorf("httpapi.authorize", edgewise.Unauthenticated, "this needs an API key, as Authorization: "+
		"Bearer ek_..., or a login")
	err.Reason = "login_required"
	if !s.deps.Accounts.Claimed() {
		err.Err, err.Reason = errors.New("this box has no users yet: open its page and claim it with the code on its "+
			"console, or give an API key as Authorization: Bearer ek_..."), "setup_required"
	}
	return err
}

// recognise sets the caller by the request's credentials. It stays nil when there are none.
func (s *Server) recognise(ctx *fasthttp.RequestCtx, r *Request) error {
	header := &ctx.Request.Header
	if given := header.Peek(fiber.HeaderAuthorization); len(given) > 0 {
		return s.bearer(r, given, r.fromLoopback())
	}
	token := header.Cookie(r.CookieName())
	if len(token) == 0 || r.origin != nil || fromElsewhere(header) {
		return nil
	}
	var err error
	r.Caller, err = s.deps.Accounts.Person(string(token))
	r.cookie = r.Caller != nil
	return err
}

// bearer sets the caller by the value of an Authorization header.
func (s *Server) bearer(r *Request, given []byte, loopback bool) (err error) {
	kind, secret, _ := strings.Cut(string(given), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return edgewise.Errorf("httpapi.bearer", edgewise.Unauthenticated, "authorization of the kind %.20q is not "+
			"accepted: want Bearer and an API key", kind)
	}
	r.Caller, r.done, err = s.deps.Accounts.Bearer(strings.TrimSpace(secret), loopback)
	return err
}

// fromElsewhere tells whether a browser reports that a page of another site sent the request.
func fromElsewhere(header *fasthttp.RequestHeader) bool {
	site := header.Peek("Sec-Fetch-Site")
	return len(site) > 0 && string(site) != "same-origin" && string(site) != "none"
}

// checkRestriction refuses a request without the header that its route needs.
func (r *Request) checkRestriction(header *fasthttp.RequestHeader) error {
	need := r.route.restriction
	if need == nil || subtle.ConstantTimeCompare(header.Peek(need.Key), []byte(need.Value)) == 1 {
		return nil
	}
	return edgewise.Errorf("httpapi.authorize", edgewise.Denied, "This API is restricted, expecting header '%s'",
		need.Key)
}

// permit decides whether the caller has the right that the route needs.
func (r *Request) permit() error {
	const op = "httpapi.permit"
	if r.route.Rights != 0 && r.Caller.Rights&r.route.Rights == 0 {
		return edgewise.Errorf(op, edgewise.Denied, "%s may not do this: it needs the right %s",
			r.Caller.Actor(), strings.Join(r.route.Rights.Names(), " or ")).WithReason("right_missing")
	}
	if r.route.Rights == 0 && r.Caller.Kind != "person" {
		return edgewise.Errorf(op, edgewise.Denied, "this is for people who are logged in, not for %s", r.Caller.Actor()).
			WithReason("right_missing")
	}
	return r.permitModel()
}

// permitModel denies a key that is bound to models each route that is not about one of them, except routes that
// describe the server.
func (r *Request) permitModel() error {
	if len(r.Caller.Models) == 0 || r.route.AboutServer {
		return nil
	}
	name, err := url.PathUnescape(string(r.value("model")))
	if err == nil && r.Caller.MayName(name) {
		return nil
	}
	return edgewise.Errorf("httpapi.permitModel", edgewise.Denied, "%s is bound to the models %s",
		r.Caller.Actor(), strings.Join(r.Caller.Models, ", ")).WithReason("right_missing")
}

// checkSession checks that a request with a cookie that changes something was sent by the box's own page, that the
// password was given where the route needs that, and that the person does not run models too often.
func (s *Server) checkSession(ctx *fasthttp.RequestCtx, r *Request) error {
	if r.cookie && !isSafe(&ctx.Request.Header) {
		if err := s.deps.Accounts.CheckCSRF(r.Caller, string(ctx.Request.Header.Peek(csrfHeader))); err != nil {
			return err
		}
	}
	if r.route.Confirm {
		return s.deps.Accounts.Confirmed(r.Caller)
	}
	if r.route.Runs && r.cookie {
		var err error
		r.done, err = s.deps.Accounts.Ask(r.Caller)
		return err
	}
	return nil
}

// audit writes a line about a request that changed something, or tried to.
func (s *Server) audit(ctx *fasthttp.RequestCtx, r *Request) {
	status := ctx.Response.StatusCode()
	if r.route.Action == "" || s.deps.Accounts == nil || status == fasthttp.StatusTooManyRequests || r.Caller == nil &&
		!r.route.Public {
		return
	}
	e := admin.AuditEntry{Actor: r.Actor, Address: r.Address(), Action: r.route.Action, Target: r.Target, Detail: r.Detail}
	if e.Actor == "" {
		e.Actor = r.Caller.Actor()
	}
	if e.Target == "" {
		e.Target = r.Param("model")
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
