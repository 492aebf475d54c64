package administration

import (
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/auth"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

func (h *handlers) sessionRoutes() []httpapi.Route {
	return []httpapi.Route{{Method: "GET", Path: "/api/v1/session", Handler: show(h.session), Public: true}}
}

// accountRoutes are about people, keys and the audit log.
func (h *handlers) accountRoutes() []httpapi.Route {
	const session, users, keys, admin = "/api/v1/session", "/api/v1/users", "/api/v1/keys", edgewise.Admin
	return []httpapi.Route{
		{Method: "POST", Path: session, Handler: change(h.login), Public: true, Action: "session.login"},
		{Method: "DELETE", Path: session, Handler: run(h.logout), Action: "session.logout"},
		{Method: "PUT", Path: session + "/password", Handler: runWith(h.changePassword), Action: "session.password"},
		{Method: "POST", Path: session + "/confirm", Handler: change(h.confirm), Action: "session.confirm"},
		{Method: "GET", Path: "/api/v1/sessions", Handler: list(h.Accounts.Sessions)},
		{Method: "DELETE", Path: "/api/v1/sessions/:id", Handler: dropOwn(h.Accounts.EndSession), Action: "session.end"},
		{Method: "POST", Path: "/api/v1/setup/claim", Handler: change(h.claim), Public: true, Action: "box.claim"},
		{Method: "GET", Path: users, Handler: get(h.Accounts.Users), Rights: admin},
		confirmed(act("POST", users, "user.create", admin, change(h.createUser))),
		confirmed(act("PATCH", users+"/:user", "user.change", admin, change(h.changeUser))),
		confirmed(act("DELETE", users+"/:user", "user.delete", admin, drop("user", h.Accounts.DeleteUser))),
		{Method: "GET", Path: keys, Handler: get(h.Accounts.Keys), Rights: admin},
		confirmed(act("POST", keys, "key.create", admin, change(h.createKey))),
		confirmed(act("PATCH", keys+"/:id", "key.change", admin, change(h.changeKey))),
		act("DELETE", keys+"/:id", "key.delete", admin, drop("id", h.Accounts.DeleteKey)),
		{Method: "GET", Path: "/api/v1/audit", Handler: show(h.audit), Rights: admin},
		{Method: "GET", Path: "/api/v1/audit/verification", Handler: show(h.verifyAudit), Rights: admin},
	}
}

// callerOf returns where a request comes from.
func callerOf(r *httpapi.Request) auth.Caller {
	return auth.Caller{Address: r.Address(), Agent: strings.Clone(r.Get(fiber.HeaderUserAgent))}
}

// The values of Session.Auth.
const (
	authOpen     = "open"
	authAccounts = "accounts"
)

// session describes the caller: GET /api/v1/session.
func (h *handlers) session(r *httpapi.Request) (admin.Session, error) {
	if h.Accounts == nil || h.Open {
		return admin.Session{
			Authenticated: true, Auth: authOpen, Claimed: true, Kind: r.Caller.Kind, Role: "admin",
			Rights: r.Caller.Rights.Names(),
		}, nil
	}
	d := h.Accounts.Describe(r.Caller)
	d.Auth = authAccounts
	return d, nil
}

// claim makes the first admin: POST /api/v1/setup/claim.
func (h *handlers) claim(r *httpapi.Request, ask admin.Claim) (s admin.Session, err error) {
	r.Actor = "person:" + ask.User
	l, err := h.Accounts.Claim(ask, callerOf(r))
	if err != nil {
		return s, err
	}
	if ask.Name != "" && h.Box != nil {
		if _, err := h.Box.ChangeSettings(admin.SettingsChange{Name: &ask.Name}); err != nil {
			h.Log().Warn("the box was claimed, its name was not changed", "error", err)
		}
	}
	return begun(r, l), nil
}

// login begins a session: POST /api/v1/session.
func (h *handlers) login(r *httpapi.Request, ask admin.Login) (s admin.Session, err error) {
	r.Actor = "person:" + ask.User
	l, err := h.Accounts.Login(ask, callerOf(r))
	if err != nil {
		return s, err
	}
	return begun(r, l), nil
}

// begun sets the cookie of a new session and describes it.
func begun(r *httpapi.Request, l auth.Login) admin.Session {
	setCookie(r, l.Token, l.Expires)
	l.Session.Auth = authAccounts
	return l.Session
}

// setCookie sets the session's cookie, or removes it when expires is in the past.
func setCookie(r *httpapi.Request, token string, expires time.Time) {
	r.Cookie(&fiber.Cookie{
		Name: r.CookieName(), Value: token, Path: "/", Expires: expires, Secure: r.Secure(),
		HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	})
}

// logout ends the session: DELETE /api/v1/session.
func (h *handlers) logout(r *httpapi.Request) error {
	if err := h.Accounts.EndSession(r.Caller, r.Caller.Session); err != nil {
		return err
	}
	setCookie(r, "", time.Unix(0, 0))
	return nil
}

// changePassword changes one's own password: PUT /api/v1/session/password.
func (h *handlers) changePassword(r *httpapi.Request, ask admin.PasswordChange) error {
	return h.Accounts.ChangePassword(r.Caller, ask, callerOf(r))
}

// password is the body of a request that gives the password again.
type password struct {
	Password string `json:"password"`
}

// confirm accepts the password again: POST /api/v1/session/confirm.
func (h *handlers) confirm(r *httpapi.Request, ask password) (s admin.Session, err error) {
	if err := h.Accounts.Confirm(r.Caller, ask.Password, callerOf(r)); err != nil {
		return s, err
	}
	return h.session(r)
}

// createUser makes a user: POST /api/v1/users.
func (h *handlers) createUser(r *httpapi.Request, ask admin.UserNew) (admin.User, error) {
	r.Target, r.Detail = ask.Name, "role "+ask.Role
	r.Status(fiber.StatusCreated)
	return h.Accounts.CreateUser(ask)
}

// changeUser changes a user: PATCH /api/v1/users/{user}.
func (h *handlers) changeUser(r *httpapi.Request, ask admin.UserChange) (admin.User, error) {
	var what []string
	if ask.Role != nil {
		what = append(what, "role "+*ask.Role)
	}
	if ask.Disabled != nil {
		what = append(what, "disabled "+strconv.FormatBool(*ask.Disabled))
	}
	if ask.Password != nil {
		what = append(what, "a new password")
	}
	r.Target, r.Detail = r.Param("user"), strings.Join(what, ", ")
	return h.Accounts.ChangeUser(r.Target, ask)
}

// createKey makes a key: POST /api/v1/keys.
func (h *handlers) createKey(r *httpapi.Request, ask admin.KeyNew) (admin.KeySecret, error) {
	r.Detail = ask.Name + ", rights " + strings.Join(ask.Rights, " ")
	k, err := h.Accounts.CreateKey(ask, r.Caller)
	r.Target = k.Key.ID
	r.Status(fiber.StatusCreated)
	return k, err
}

// changeKey changes a key: PATCH /api/v1/keys/{id}.
func (h *handlers) changeKey(r *httpapi.Request, ask admin.KeyChange) (admin.Key, error) {
	r.Target = r.Param("id")
	return h.Accounts.ChangeKey(r.Target, ask, r.Caller)
}

// audit reads the audit log: GET /api/v1/audit.
func (h *handlers) audit(r *httpapi.Request) (page admin.AuditPage, err error) {
	q := auth.AuditQuery{Actor: strings.Clone(r.Query("actor")), Action: strings.Clone(r.Query("action"))}
	before, err := queryNumber(r, "before", 0, 0, 1<<62)
	if err != nil {
		return page, err
	}
	if q.Limit, err = queryLimit(r, defaultPage); err != nil {
		return page, err
	}
	q.Before = uint64(before)
	return h.Accounts.Audit(q)
}

// verifyAudit checks the chain of the audit log: GET /api/v1/audit/verification.
func (h *handlers) verifyAudit(*httpapi.Request) (admin.AuditVerification, error) {
	return h.Accounts.VerifyAudit()
}
