package admin

import "time"

// Setup is the state of the setup: GET /api/v1/setup.
type Setup struct {
	Claimed       bool        `json:"claimed"`
	Auth          string      `json:"auth"`
	Name          string      `json:"name"` // of the box
	Version       string      `json:"version"`
	Next          string      `json:"next"` // the first step that is not done; empty when all are
	Steps         []SetupStep `json:"steps"`
	TLS           bool        `json:"tls"`         // whether the answer came over TLS
	Fingerprint   string      `json:"fingerprint"` // of the certificate; empty without TLS
	PasswordBytes int         `json:"password_bytes"`
}

// SetupStep is one step of the setup.
type SetupStep struct {
	Name string `json:"name"`
	Done bool   `json:"done"`
}

// Claim is the body of POST /api/v1/setup/claim.
type Claim struct {
	Code     string `json:"code"`
	User     string `json:"user"`
	Password string `json:"password"`
	Name     string `json:"name"` // of the box; empty: as it is
}

// Login is the body of POST /api/v1/session.
type Login struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

// PasswordChange is the body of PUT /api/v1/session/password.
type PasswordChange struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// Session describes the caller: GET /api/v1/session.
type Session struct {
	Authenticated  bool      `json:"authenticated"`
	Auth           string    `json:"auth"`
	Claimed        bool      `json:"claimed"`
	Kind           string    `json:"kind,omitempty"`
	User           string    `json:"user,omitempty"`
	Role           string    `json:"role,omitempty"`
	Rights         []string  `json:"rights"`
	CSRF           string    `json:"csrf,omitempty"`
	IdleExpires    time.Time `json:"idle_expires,omitzero"`
	Expires        time.Time `json:"expires,omitzero"`
	ConfirmedUntil time.Time `json:"confirmed_until,omitzero"`
}

// SessionInfo is a session in a list.
type SessionInfo struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Address string    `json:"address,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
	Expires time.Time `json:"expires"`
	Current bool      `json:"current"`
}

// User is an account with a password.
type User struct {
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Disabled  bool      `json:"disabled"`
	Created   time.Time `json:"created"`
	LastLogin time.Time `json:"last_login,omitzero"`
}

// UserNew is the body of POST /api/v1/users.
type UserNew struct {
	Name     string `json:"name"`
	Role     string `json:"role"`
	Password string `json:"password"`
}

// UserChange is the body of PATCH /api/v1/users/{user}. Members that are nil do not change.
type UserChange struct {
	Role     *string `json:"role"`
	Password *string `json:"password"`
	Disabled *bool   `json:"disabled"`
}

// Key is an API key without its secret.
type Key struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Prefix      string    `json:"prefix"`
	Rights      []string  `json:"rights"`
	Models      []string  `json:"models"`
	Origins     []string  `json:"origins"`     // whose pages may use the key; empty: none but the server's own
	Rate        float64   `json:"rate"`        // requests a second; 0: no bound
	Concurrency int       `json:"concurrency"` // requests at a time; 0: no bound
	Disabled    bool      `json:"disabled"`
	Created     time.Time `json:"created"`
	CreatedBy   string    `json:"created_by"`
	Expires     time.Time `json:"expires,omitzero"`
	LastUsed    time.Time `json:"last_used,omitzero"`
}

// KeyNew is the body of POST /api/v1/keys.
type KeyNew struct {
	Name        string    `json:"name"`
	Rights      []string  `json:"rights"`
	Models      []string  `json:"models"`
	Origins     []string  `json:"origins"`
	Rate        float64   `json:"rate"`
	Concurrency int       `json:"concurrency"`
	Expires     time.Time `json:"expires,omitzero"`
}

// KeySecret is the answer to POST /api/v1/keys.
type KeySecret struct {
	Key    Key    `json:"key"`
	Secret string `json:"secret"`
}

// KeyChange is the body of PATCH /api/v1/keys/{id}. Members that are nil do not change.
type KeyChange struct {
	Name        *string   `json:"name"`
	Rights      *[]string `json:"rights"`
	Models      *[]string `json:"models"`
	Origins     *[]string `json:"origins"`
	Rate        *float64  `json:"rate"`
	Concurrency *int      `json:"concurrency"`
	Disabled    *bool     `json:"disabled"`
}

// AuditEntry is a line of the audit log. Hash is over the line and the hash of the line before it.
type AuditEntry struct {
	Number  uint64    `json:"number"`
	Time    time.Time `json:"time"`
	Actor   string    `json:"actor"`
	Address string    `json:"address,omitempty"`
	Action  string    `json:"action"`
	Target  string    `json:"target,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	Error   string    `json:"error,omitempty"`
	Hash    string    `json:"hash"`
}

// AuditPage is a page of the audit log, latest first.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    uint64       `json:"next,omitempty"`
}

// AuditVerification says whether the audit log is whole.
type AuditVerification struct {
	Whole   bool   `json:"whole"`
	Entries uint64 `json:"entries"`
	Broken  uint64 `json:"broken,omitempty"`
	Head    string `json:"head,omitempty"`
}
