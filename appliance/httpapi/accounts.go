package httpapi

import (
	"bytes"
	"encoding/json"
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
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
	// Claimed tells whether somebody may log in.
	Claimed() bool
	// Claim makes the first admin and logs in. Errors: Conflict, Busy, Unauthenticated, Invalid.
	Claim(c admin.Claim, from Caller) (NewLogin, error)
	// Login begins a session. Errors: Busy, Unauthenticated.
	Login(l admin.Login, from Caller) (NewLogin, error)
	// Person returns who a session's token belongs to. Errors: Unauthenticated.
	Person(token string) (*edgewise.Principal, error)
	// Bearer returns who a secret belongs to; done, which may be nil, is called when the request has ended. Errors:
	// Unauthenticated, Denied, Busy.
	Bearer(secret string, loopback bool) (p *edgewise.Principal, done func(), err error)
	// HasOrigin tells whether there is a key that may be used by pages of an origin.
	HasOrigin(origin string) bool
	// Ask counts a person's request to run something; done is called when it has ended. Errors: Busy.
	Ask(p *edgewise.Principal) (done func(), err error)
	// CheckCSRF tells whether value is what the session's page was told. Errors: Denied.
	CheckCSRF(p *edgewise.Principal, value string) error
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
	// Record writes a line to the audit log; the others read it.
	Record(e admin.AuditEntry) error
	Audit(q AuditQuery) (admin.AuditPage, error)
	VerifyAudit() (admin.AuditVerification, error)
}

func caller(c *fiber.Ctx) Caller {
	return Caller{Address: address(c.Context()), Agent: strings.Clone(c.Get(fiber.HeaderUserAgent))}
}

// session says who the caller is: GET /api/v1/session.
func (s *Server) session(c *fiber.Ctx) error {
	return writeJSON(c, s.describe(who(c)))
}

func (s *Server) describe(p *edgewise.Principal) admin.Session {
	if s.deps.Accounts == nil || s.deps.Open {
		return admin.Session{
			Authenticated: true, Auth: authOpen, Claimed: true, Kind: openVisitor.Kind, Role: "admin",
			Rights: openVisitor.Rights.Names(),
		}
	}
	d := s.deps.Accounts.Describe(p)
	d.Auth = authAccounts
	return d
}

// The values of Session.Auth.
const (
	authOpen     = "open"
	authAccounts = "accounts"
)

// claim makes the first admin: POST /api/v1/setup/claim.
func (s *Server) claim(c *fiber.Ctx) error {
	var ask admin.Claim
	if err := readBody(c, &ask); err != nil {
		return err
	}
	stateOf(c.Context()).actor = "person:" + ask.User
	l, err := s.deps.Accounts.Claim(ask, caller(c))
	if err != nil {
		return err
	}
	if ask.Name != "" && s.deps.Box != nil {
		if _, err := s.deps.Box.ChangeSettings(admin.SettingsChange{Name: &ask.Name}); err != nil {
			s.deps.Log.Warn("the box was claimed, its name was not changed", "error", err)
		}
	}
	return s.welcome(c, l)
}

// login begins a session: POST /api/v1/session.
func (s *Server) login(c *fiber.Ctx) error {
	var ask admin.Login
	if err := readBody(c, &ask); err != nil {
		return err
	}
	stateOf(c.Context()).actor = "person:" + ask.User
	l, err := s.deps.Accounts.Login(ask, caller(c))
	if err != nil {
		return err
	}
	return s.welcome(c, l)
}

// welcome hands out a new session.
func (s *Server) welcome(c *fiber.Ctx, l NewLogin) error {
	s.setCookie(c, l.Token, l.Expires)
	l.Session.Auth = authAccounts
	return writeJSON(c, l.Session)
}

// setCookie sets the session's cookie, or takes it away when expires is in the past.
func (s *Server) setCookie(c *fiber.Ctx, token string, expires time.Time) {
	c.Cookie(&fiber.Cookie{
		Name: s.cookieName(c.Context()), Value: token, Path: "/", Expires: expires, Secure: secure(c.Context()),
		HTTPOnly: true, SameSite: fiber.CookieSameSiteStrictMode,
	})
}

// logout ends the session: DELETE /api/v1/session.
func (s *Server) logout(c *fiber.Ctx) error {
	if err := s.deps.Accounts.EndSession(who(c), who(c).Session); err != nil {
		return err
	}
	s.setCookie(c, "", time.Unix(0, 0))
	return done(c, nil)
}

// changePassword changes one's own password: PUT /api/v1/session/password.
func (s *Server) changePassword(c *fiber.Ctx) error {
	var ask admin.PasswordChange
	if err := readBody(c, &ask); err != nil {
		return err
	}
	return done(c, s.deps.Accounts.ChangePassword(who(c), ask, caller(c)))
}

// confirm takes the password again: POST /api/v1/session/confirm.
func (s *Server) confirm(c *fiber.Ctx) error {
	var ask struct {
		Password string `json:"password"`
	}
	if err := readBody(c, &ask); err != nil {
		return err
	}
	if err := s.deps.Accounts.Confirm(who(c), ask.Password, caller(c)); err != nil {
		return err
	}
	return writeJSON(c, s.describe(who(c)))
}

// sessions lists sessions: GET /api/v1/sessions.
func (s *Server) sessions(c *fiber.Ctx) error {
	return writeJSON(c, s.deps.Accounts.Sessions(who(c)))
}

// endSession ends a session: DELETE /api/v1/sessions/{id}.
func (s *Server) endSession(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	target(c, id)
	return done(c, s.deps.Accounts.EndSession(who(c), id))
}

// target says in the audit log what a change is about.
func target(c *fiber.Ctx, name string) { stateOf(c.Context()).target = name }

// detail says in the audit log what a change was.
func detail(c *fiber.Ctx, text string) { stateOf(c.Context()).detail = text }

// createUser makes a user: POST /api/v1/users.
func (s *Server) createUser(c *fiber.Ctx) error {
	var ask admin.UserNew
	if err := readBody(c, &ask); err != nil {
		return err
	}
	target(c, ask.Name)
	detail(c, "role "+ask.Role)
	u, err := s.deps.Accounts.CreateUser(ask)
	if err != nil {
		return err
	}
	c.Status(fiber.StatusCreated)
	return writeJSON(c, u)
}

// changeUser changes a user: PATCH /api/v1/users/{user}.
func (s *Server) changeUser(c *fiber.Ctx) error {
	name, err := param(c, "user")
	if err != nil {
		return err
	}
	var ask admin.UserChange
	if err := readBody(c, &ask); err != nil {
		return err
	}
	target(c, name)
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
	detail(c, strings.Join(what, ", "))
	u, err := s.deps.Accounts.ChangeUser(name, ask)
	if err != nil {
		return err
	}
	return writeJSON(c, u)
}

// deleteUser deletes a user: DELETE /api/v1/users/{user}.
func (s *Server) deleteUser(c *fiber.Ctx) error {
	name, err := param(c, "user")
	if err != nil {
		return err
	}
	target(c, name)
	return done(c, s.deps.Accounts.DeleteUser(name))
}

// createKey makes a key: POST /api/v1/keys.
func (s *Server) createKey(c *fiber.Ctx) error {
	var ask admin.KeyNew
	if err := readBody(c, &ask); err != nil {
		return err
	}
	detail(c, ask.Name+", rights "+strings.Join(ask.Rights, " "))
	k, err := s.deps.Accounts.CreateKey(ask, who(c))
	if err != nil {
		return err
	}
	target(c, k.Key.ID)
	c.Status(fiber.StatusCreated)
	return writeJSON(c, k)
}

// changeKey changes a key: PATCH /api/v1/keys/{id}.
func (s *Server) changeKey(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	var ask admin.KeyChange
	if err := readBody(c, &ask); err != nil {
		return err
	}
	target(c, id)
	k, err := s.deps.Accounts.ChangeKey(id, ask, who(c))
	if err != nil {
		return err
	}
	return writeJSON(c, k)
}

// deleteKey revokes a key: DELETE /api/v1/keys/{id}.
func (s *Server) deleteKey(c *fiber.Ctx) error {
	id, err := param(c, "id")
	if err != nil {
		return err
	}
	target(c, id)
	return done(c, s.deps.Accounts.DeleteKey(id))
}

// listAudit reads the audit log: GET /api/v1/audit.
func (s *Server) listAudit(c *fiber.Ctx) error {
	q := AuditQuery{Actor: strings.Clone(c.Query("actor")), Action: strings.Clone(c.Query("action"))}
	before, err := queryNumber(c, "before", 0, 0, 1<<62)
	if err != nil {
		return err
	}
	limit, err := queryNumber(c, "limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	q.Before, q.Limit = uint64(before), int(limit)
	page, err := s.deps.Accounts.Audit(q)
	if err != nil {
		return err
	}
	return writeJSON(c, page)
}

// Bounds of a page of a list.
const (
	defaultPage = 100
	maxPage     = 1000
)

// verifyAudit checks the chain of the audit log: GET /api/v1/audit/verification.
func (s *Server) verifyAudit(c *fiber.Ctx) error {
	v, err := s.deps.Accounts.VerifyAudit()
	if err != nil {
		return err
	}
	return writeJSON(c, v)
}

// queryNumber reads a number of the query, otherwise when it is not there.
func queryNumber(c *fiber.Ctx, name string, otherwise, least, most int64) (int64, error) {
	text := c.Query(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, edgewise.Errorf("httpapi.queryNumber", edgewise.Invalid, "query parameter %s is %.40q: want a number "+
			"from %d to %d", name, strings.Clone(text), least, most)
	}
	return n, nil
}

// readBody reads a body that is there and JSON, and in which every member is known.
func readBody(c *fiber.Ctx, into any) error {
	const op = "httpapi.readBody"
	if kind, _, err := mime.ParseMediaType(string(c.Request().Header.ContentType())); err != nil ||
		kind != fiber.MIMEApplicationJSON {
		return &special{
			fasthttp.StatusUnsupportedMediaType,
			edgewise.Errorf(op, edgewise.Invalid, "content type %.80q: want %s", string(c.Request().Header.ContentType()),
				fiber.MIMEApplicationJSON),
		}
	}
	if err := noEncoding(c); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(c.Request().Body()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return bodyProblem(err)
	}
	if decoder.More() {
		return edgewise.Errorf(op, edgewise.Invalid, "there is more behind the JSON of the body")
	}
	return nil
}
