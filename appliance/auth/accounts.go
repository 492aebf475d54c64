package auth

import (
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgewise-ai/edgewise"
)

// The buckets. docs/formats/box.md describes keys and values.
const (
	usersBucket    = "users"
	sessionsBucket = "sessions"
	keysBucket     = "keys"
	auditBucket    = "audit"
	claimBucket    = "claim"
)

// Bounds of what is kept.
const (
	MaxUsers           = 1000
	MaxKeys            = 10_000
	MaxSessionsPerUser = 32
)

// Times of sessions.
const (
	DefaultSessionIdle = 7 * 24 * time.Hour
	DefaultSession     = 30 * 24 * time.Hour
	ConfirmTime        = 10 * time.Minute // for which a password that was given counts
	saveUsed           = time.Minute      // how exact the stored times of last use are
)

// Config is what Accounts needs.
type Config struct {
	Documents edgewise.Documents
	Log       *slog.Logger // nil discards
	// Times returns how long a session lasts without use, and at all. Nil: the defaults.
	Times func() (idle, total time.Duration)
	// Hashing is what a password hash costs. Zero: DefaultCost.
	Hashing Cost
}

// Accounts knows people, sessions and keys. It is safe for concurrent use.
type Accounts struct {
	cfg    Config
	logins *limiter
	claims pause
	hash   chan struct{} // holds one token: one password is hashed at a time, for its memory
	decoy  string        // a hash that no password has

	mu    sync.Mutex // guards the maps and what they lead to
	code  string     // the claim code; empty: claimed
	users map[string]*user
	// damagedUsers tells that somebody has claimed the box, though no user may be left that can be read.
	damagedUsers bool
	sessions     map[[sha256.Size]byte]*session
	keys         map[[sha256.Size]byte]*key
	askers       map[string]*asker // by the folded name of the person
	local        [sha256.Size]byte // of the local token; zero: there is none
	localLife    lifetime
	head         string // hash of the last line of the audit log
	auditing     sync.Mutex
}

// Open reads the accounts.
func Open(cfg Config) (*Accounts, error) {
	if cfg.Times == nil {
		cfg.Times = func() (time.Duration, time.Duration) { return DefaultSessionIdle, DefaultSession }
	}
	if cfg.Hashing == (Cost{}) {
		cfg.Hashing = DefaultCost
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a := &Accounts{
		cfg: cfg, logins: newLimiter(), hash: make(chan struct{}, 1),
		users: map[string]*user{}, sessions: map[[sha256.Size]byte]*session{}, keys: map[[sha256.Size]byte]*key{},
		askers: map[string]*asker{},
	}
	a.hash <- struct{}{}
	a.decoy = a.cfg.Hashing.hash(random(16))
	err := cfg.Documents.View(func(tx edgewise.DocumentsTx) error {
		if err := a.load(tx); err != nil {
			return err
		}
		tx.Backward(auditBucket, 0, func(_ uint64, value []byte) bool {
			var last line
			if json.Unmarshal(value, &last) == nil {
				a.head = last.Hash
			}
			return false
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a, a.prepareClaim()
}

// fold makes names that differ only in case the same: "Anna" is "anna".
func fold(name string) string { return strings.ToLower(name) }

// put stores a value as JSON.
func (a *Accounts) put(bucket, key string, value any) error {
	return a.cfg.Documents.Update(func(tx edgewise.DocumentsTx) error { return put(tx, bucket, key, value) })
}

func put(tx edgewise.DocumentsTx, bucket, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return edgewise.Errorf("auth.put", edgewise.Internal, "encoding: %w", err)
	}
	return tx.Put(bucket, key, text)
}

func (a *Accounts) remove(bucket string, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	return a.cfg.Documents.Update(func(tx edgewise.DocumentsTx) error {
		for _, key := range keys {
			if err := tx.Delete(bucket, key); err != nil {
				return err
			}
		}
		return nil
	})
}

// role returns what a role may do; ok is false for a role that does not exist.
func role(name string) (rights edgewise.Rights, ok bool) {
	switch name {
	case RoleViewer:
		return edgewise.Read | edgewise.Infer, true
	case RoleOperator:
		return edgewise.Read | edgewise.Infer | edgewise.Operate, true
	case RoleAdmin:
		return edgewise.AllRights, true
	}
	return 0, false
}

// The roles of people.
const (
	RoleViewer   = "viewer"
	RoleOperator = "operator"
	RoleAdmin    = "admin"
)

// wrong is an Invalid error about a member of what the caller sent.
func wrong(op, field, format string, args ...any) error {
	return edgewise.Errorf(op, edgewise.Invalid, format, args...).WithField(field)
}

// sortedBy returns the values of a map in the order of a text of theirs.
func sortedBy[K comparable, V any](m map[K]V, by func(V) string) []V {
	list := make([]V, 0, len(m))
	for _, v := range m {
		list = append(list, v)
	}
	slices.SortFunc(list, func(x, y V) int { return strings.Compare(by(x), by(y)) })
	return list
}
