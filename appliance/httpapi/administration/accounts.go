package administration

import (
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/httpapi"
)

// Caller is where a request comes from.
type Caller struct {
	Address string // IP address
	Agent   string // what the browser says it is
}

// NewLogin is what a new session hands out.
type NewLogin struct {
	Token   string    // for the cookie
	Expires time.Time // at the latest
	Session admin.Session
}

// AuditQuery says which lines of the audit log are wanted.
type AuditQuery struct {
	Before        uint64
	Limit         int
	Actor, Action string
}

// Accounts is what the routes about people and keys need of the box. All methods are safe for concurrent use.
type Accounts interface {
	// Claim makes the first admin and logs in. Errors: Conflict, Busy, Unauthenticated, Invalid.
	Claim(c admin.Claim, from Caller) (NewLogin, error)
	// Login begins a session. Errors: Busy, Unauthenticated.
	Login(l admin.Login, from Caller) (NewLogin, error)
	// Confirmed returns nil when a person gave the password a moment ago. Errors: Denied.
	Confirmed(p *edgewise.Principal) error
	// Confirm takes the password again. Errors: Unauthenticated, Busy, Invalid.
	Confirm(p *edgewise.Principal, password string, from Caller) error
	// ChangePassword changes one's own password. Errors: Unauthenticated, Busy, Invalid.
	ChangePassword(p *edgewise.Principal, c admin.PasswordChange, from Caller) error
	// Describe says who a principal is; nil is nobody.
	Describe(p *edgewise.Principal) admin.Session
	// Sessions lists the sessions that p may see, EndSession ends one of them. Errors: NotFound.
	Sessions(p *edgewise.Principal) []admin.SessionInfo
	EndSession(p *edgewise.Principal, id string) error
	// Users and what changes them. Errors: NotFound, Exists, Invalid, Conflict, TooLarge.
	Users() []admin.User
	CreateUser(n admin.UserNew) (admin.User, error)
	ChangeUser(name string, c admin.UserChange) (admin.User, error)
	DeleteUser(name string) error
	// Keys and what changes them. Errors: NotFound, Invalid, Denied, TooLarge.
	Keys() []admin.Key
	CreateKey(n admin.KeyNew, by *edgewise.Principal) (admin.KeySecret, error)
	ChangeKey(id string, c admin.KeyChange, by *edgewise.Principal) (admin.Key, error)
	DeleteKey(id string) error
	// Audit and VerifyAudit read the audit log.
	Audit(q AuditQuery) (admin.AuditPage, error)
	VerifyAudit() (admin.AuditVerification, error)
}

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
		{Method: "GET", Path: "/api/v1/sessions", Handler: show(h.sessions)},
		{Method: "DELETE", Path: "/api/v1/sessions/:id", Handler: run(h.endSession), Action: "session.end"},
		{Method: "POST", Path: "/api/v1/setup/claim", Handler: change(h.claim), Public: true, Action: "box.claim"},
		{Method: "GET", Path: users, Handler: get(h.Accounts.Users), Rights: admin},
		{
			Method: "POST", Path: users, Handler: change(h.createUser), Rights: admin, Confirm: true,
			Action: "user.create",
		},
		{
			Method: "PATCH", Path: users + "/:user", Handler: change(h.changeUser), Rights: admin, Confirm: true,
			Action: "user.change",
		},
		{
			Method: "DELETE", Path: users + "/:user", Handler: run(h.deleteUser), Rights: admin, Confirm: true,
			Action: "user.delete",
		},
		{Method: "GET", Path: keys, Handler: get(h.Accounts.Keys), Rights: admin},
		{
			Method: "POST", Path: keys, Handler: change(h.createKey), Rights: admin, Confirm: true,
			Action: "key.create",
		},
		{
			Method: "PATCH", Path: keys + "/:id", Handler: change(h.changeKey), Rights: admin, Confirm: true,
			Action: "key.change",
		},
		{Method: "DELETE", Path: keys + "/:id", Handler: run(h.deleteKey), Rights: admin, Action: "key.delete"},
		{Method: "GET", Path: "/api/v1/audit", Handler: show(h.audit), Rights: admin},
		{Method: "GET", Path: "/api/v1/audit/verification", Handler: show(h.verifyAudit), Rights: admin},
	}
}

// callerOf returns where a request comes from.
func callerOf(r *httpapi.Request) Caller {
	return Caller{Address: r.Address(), Agent: strings.Clone(r.Get(fiber.HeaderUserAgent))}
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
func begun(r *httpapi.Request, l NewLogin) admin.Session {
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

// sessions lists sessions: GET /api/v1/sessions.
func (h *handlers) sessions(r *httpapi.Request) ([]admin.SessionInfo, error) {
	return h.Accounts.Sessions(r.Caller), nil
}

// endSession ends a session: DELETE /api/v1/sessions/{id}.
func (h *handlers) endSession(r *httpapi.Request) error {
	r.Target = r.Param("id")
	return h.Accounts.EndSession(r.Caller, r.Target)
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

// deleteUser deletes a user: DELETE /api/v1/users/{user}.
func (h *handlers) deleteUser(r *httpapi.Request) error {
	r.Target = r.Param("user")
	return h.Accounts.DeleteUser(r.Target)
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

// deleteKey revokes a key: DELETE /api/v1/keys/{id}.
func (h *handlers) deleteKey(r *httpapi.Request) error {
	r.Target = r.Param("id")
	return h.Accounts.DeleteKey(r.Target)
}

// audit reads the audit log: GET /api/v1/audit.
func (h *handlers) audit(r *httpapi.Request) (page admin.AuditPage, err error) {
	q := AuditQuery{Actor: strings.Clone(r.Query("actor")), Action: strings.Clone(r.Query("action"))}
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
