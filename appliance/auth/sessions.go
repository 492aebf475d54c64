package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// session is somebody's browser, as it is stored.
type session struct {
	ID        string    `json:"id"`
	Hash      string    `json:"hash"` // SHA-256 of the token, hexadecimal
	CSRF      string    `json:"csrf"`
	User      string    `json:"user"`
	Address   string    `json:"address,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Created   time.Time `json:"created"`
	Used      time.Time `json:"used"`
	Confirmed time.Time `json:"confirmed"` // when the password was given last
	saved     time.Time // what of Used is stored
	life      lifetime
}

// Caller is where a request comes from.
type Caller struct {
	Address string // IP address
	Agent   string // what the browser says it is
}

// Login is what a new session hands out: the token for the cookie, until when it holds at most, and what the page is
// told.
type Login struct {
	Token   string
	Expires time.Time
	Session admin.Session
}

const maxAgent = 200

// Login checks a password and begins a session. Errors: Busy with Retry after too many tries from the address,
// Unauthenticated, which does not tell whether the user exists.
func (a *Accounts) Login(l admin.Login, from Caller) (Login, error) {
	if wait := a.logins.try(from.Address); wait > 0 {
		return Login{}, limited("too many tries to log in", wait)
	}
	a.mu.Lock()
	u := a.users[fold(l.User)]
	hash := a.decoy
	if u != nil {
		hash = u.Password
	}
	a.mu.Unlock()
	good, err := a.verify(l.Password[:min(len(l.Password), MaxPassword+1)], hash)
	if err != nil {
		return Login{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	u = a.users[fold(l.User)]
	if !good || u == nil || u.Password != hash || u.Disabled {
		return Login{}, edgewise.Errorf("auth.Login", edgewise.Unauthenticated, "the user's name or the password is wrong")
	}
	a.logins.forgive(from.Address)
	return a.begin(u, from)
}

// begin makes a session. a.mu is held.
func (a *Accounts) begin(u *user, from Caller) (Login, error) {
	now := time.Now().UTC()
	if err := a.sweep(now); err != nil {
		return Login{}, err
	}
	if err := a.dropOldest(u.Name); err != nil {
		return Login{}, err
	}
	changed := *u
	changed.LastLogin = now
	token := random(32)
	hash := digest(token)
	s := &session{
		ID: random(8), Hash: hex.EncodeToString(hash[:]), CSRF: csrf(token), User: u.Name, Address: from.Address,
		Agent:   from.Agent[:min(len(from.Agent), maxAgent)],
		Created: now, Used: now, Confirmed: now, saved: now,
	}
	if err := a.put(usersBucket, fold(u.Name), &changed); err != nil {
		return Login{}, err
	}
	if err := a.put(sessionsBucket, s.ID, s); err != nil {
		return Login{}, err
	}
	a.users[fold(u.Name)] = &changed
	a.sessions[hash] = s
	_, total := a.cfg.Times()
	return Login{Token: token, Expires: now.Add(total), Session: a.describe(s, &changed)}, nil
}

// csrf derives the value of the CSRF header from a session's token, so that only who reads the answers of the box knows
// it.
func csrf(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("csrf"))
	return hex.EncodeToString(mac.Sum(nil))[:32]
}

// describe says who a session is. a.mu is held.
func (a *Accounts) describe(s *session, u *user) admin.Session {
	idle, total := a.cfg.Times()
	rights, _ := role(u.Role)
	return admin.Session{
		Authenticated: true, Claimed: true, Kind: "person", User: u.Name, Role: u.Role, Rights: rights.Names(), CSRF: s.CSRF,
		IdleExpires: s.Used.Add(idle), Expires: s.Created.Add(total), ConfirmedUntil: s.Confirmed.Add(ConfirmTime),
	}
}

// live tells whether a session has not ended.
func (a *Accounts) live(s *session, now time.Time) bool {
	idle, total := a.cfg.Times()
	return now.Before(s.Used.Add(idle)) && now.Before(s.Created.Add(total))
}

// sweep forgets sessions that have ended. a.mu is held.
func (a *Accounts) sweep(now time.Time) error {
	return a.endWhere(func(s *session) bool { return !a.live(s, now) })
}

// endWhere forgets the sessions that are meant. a.mu is held.
func (a *Accounts) endWhere(meant func(s *session) bool) error {
	var ended []string
	for hash, s := range a.sessions {
		if meant(s) {
			ended = append(ended, s.ID)
			delete(a.sessions, hash)
			s.life.over(over())
		}
	}
	return a.remove(sessionsBucket, ended...)
}

// over is the cause of the end of what a session does when the session ends.
func over() error { return unknown("the session has ended: log in again") }

// dropOldest makes room for one more session of a user. a.mu is held.
func (a *Accounts) dropOldest(user string) error {
	var own []*session
	for _, s := range a.sessions {
		if s.User == user {
			own = append(own, s)
		}
	}
	if len(own) < MaxSessionsPerUser {
		return nil
	}
	oldest := slices.MinFunc(own, func(x, y *session) int { return x.Used.Compare(y.Used) })
	return a.endWhere(func(s *session) bool { return s == oldest })
}

// endSessions ends the sessions of a user but one. a.mu is held.
func (a *Accounts) endSessions(user, but string) error {
	return a.endWhere(func(s *session) bool { return fold(s.User) == fold(user) && s.ID != but })
}

// Person returns who a session's token belongs to, and counts it as used. Errors: Unauthenticated.
func (a *Accounts) Person(token string) (*edgewise.Principal, error) {
	now := time.Now().UTC()
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[digest(token)]
	if s == nil || !a.live(s, now) {
		return nil, over()
	}
	u := a.users[fold(s.User)]
	if u == nil || u.Disabled {
		return nil, unknown("the account is disabled")
	}
	s.Used = now
	if now.Sub(s.saved) >= saveUsed {
		s.saved = now
		if err := a.put(sessionsBucket, s.ID, s); err != nil { // what fails here fails again where it matters
			a.cfg.Log.Warn("the last use of a session was not stored", "error", err)
		}
	}
	rights, _ := role(u.Role)
	return &edgewise.Principal{Kind: "person", Name: u.Name, Rights: rights, Session: s.ID, Lifetime: s.life.context()},
		nil
}

func unknown(text string) error {
	return edgewise.Errorf("auth.unknown", edgewise.Unauthenticated, "%s", text).WithReason("login_required")
}

// CheckCSRF tells whether value is the one that the page of a session was told. Errors: Denied.
func (a *Accounts) CheckCSRF(p *edgewise.Principal, value string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.byID(p.Session)
	if s != nil && subtle.ConstantTimeCompare([]byte(s.CSRF), []byte(value)) == 1 {
		return nil
	}
	return edgewise.Errorf("auth.CheckCSRF", edgewise.Denied, "the request lacks the header X-CSRF-Token of this "+
		"session: read it from the session and send it with every change").WithReason("csrf")
}

func (a *Accounts) byID(id string) *session {
	for _, s := range a.sessions {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// Describe says who a principal is.
func (a *Accounts) Describe(p *edgewise.Principal) admin.Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p == nil {
		return admin.Session{Claimed: a.code == "", Rights: []string{}}
	}
	if s := a.byID(p.Session); s != nil && p.Kind == "person" {
		if u := a.users[fold(s.User)]; u != nil {
			return a.describe(s, u)
		}
	}
	return admin.Session{Authenticated: true, Claimed: a.code == "", Kind: p.Kind, User: p.Name, Rights: p.Rights.Names()}
}

// Confirm takes the password again, for operations that give power away. Errors: those of ChangePassword.
func (a *Accounts) Confirm(p *edgewise.Principal, password string, from Caller) error {
	if err := a.checkOwn(p, password, "password", from); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.byID(p.Session)
	if s == nil {
		return over()
	}
	s.Confirmed = time.Now().UTC()
	return a.put(sessionsBucket, s.ID, s)
}

// Confirmed returns nil when a person gave the password within ConfirmTime. Others have nothing to give. Errors: Denied
// with Reason confirm_required.
func (a *Accounts) Confirmed(p *edgewise.Principal) error {
	if p.Kind != "person" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.byID(p.Session); s != nil && time.Since(s.Confirmed) < ConfirmTime {
		return nil
	}
	return edgewise.Errorf("auth.Confirmed", edgewise.Denied, "this needs your password again: it was given more "+
		"than %v ago", ConfirmTime).WithReason("confirm_required")
}

// Sessions lists a person's sessions, latest use first; an admin sees everybody's.
func (a *Accounts) Sessions(p *edgewise.Principal) []admin.SessionInfo {
	_, total := a.cfg.Times()
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []admin.SessionInfo{}
	for _, s := range a.sessions {
		if a.live(s, now) && (s.User == p.Name && p.Kind == "person" || p.Rights&edgewise.Admin != 0) {
			list = append(list, admin.SessionInfo{
				ID: s.ID, User: s.User, Address: s.Address, Agent: s.Agent, Created: s.Created, Used: s.Used,
				Expires: s.Created.Add(total), Current: s.ID == p.Session,
			})
		}
	}
	slices.SortFunc(list, func(x, y admin.SessionInfo) int { return y.Used.Compare(x.Used) })
	return list
}

// EndSession ends a session of one's own; an admin may end anybody's. Errors: NotFound.
func (a *Accounts) EndSession(p *edgewise.Principal, id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.byID(id)
	if s == nil || !(s.User == p.Name && p.Kind == "person") && p.Rights&edgewise.Admin == 0 {
		return edgewise.Errorf("auth.EndSession", edgewise.NotFound, "there is no session %.64q", id)
	}
	return a.endWhere(func(other *session) bool { return other == s })
}

// flush stores the times of last use that are not stored yet.
func (a *Accounts) flush(tx edgewise.DocumentsTx) error {
	for _, s := range a.sessions {
		if s.Used.After(s.saved) {
			if err := put(tx, sessionsBucket, s.ID, s); err != nil {
				return err
			}
		}
	}
	for _, k := range a.keys {
		if err := put(tx, keysBucket, k.ID, k); err != nil {
			return err
		}
	}
	return nil
}

// Close stores when sessions and keys were used last.
func (a *Accounts) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg.Documents.Update(a.flush)
}
