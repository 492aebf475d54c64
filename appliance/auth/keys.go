package auth

import (
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// Prefixes of secrets, by which people and scanners recognise them.
const (
	keyPrefix   = "ek_"
	localPrefix = "el_"
	shownPrefix = 8 // characters of a secret that lists show
)

// Bounds of a key.
const (
	maxKeyName     = 128
	maxKeyModels   = 100
	maxKeyOrigins  = 16
	maxRate        = 1e6
	maxConcurrency = 1 << 16
	burst          = 1 // seconds of the rate that may come at once
)

// key is an API key, as it is stored.
type key struct {
	ID          string          `json:"id"`
	Hash        string          `json:"hash"` // SHA-256 of the secret, hexadecimal
	Name        string          `json:"name"`
	Prefix      string          `json:"prefix"`
	Rights      edgewise.Rights `json:"rights"`
	Models      []string        `json:"models,omitempty"`
	Origins     []string        `json:"origins,omitempty"`
	Rate        float64         `json:"rate,omitempty"`
	Concurrency int             `json:"concurrency,omitempty"`
	Disabled    bool            `json:"disabled,omitempty"`
	Created     time.Time       `json:"created"`
	CreatedBy   string          `json:"created_by"`
	Expires     time.Time       `json:"expires,omitzero"`
	LastUsed    time.Time       `json:"last_used,omitzero"`

	principal *edgewise.Principal // made once, for all requests
	life      lifetime
	running   int
	tokens    tokens
}

func (k *key) ready() *key {
	k.principal = &edgewise.Principal{
		Kind: "key", Name: k.Name, Rights: k.Rights, Models: k.Models, Origins: k.Origins,
		Lifetime: k.life.context(),
	}
	k.tokens = tokens{}
	return k
}

func (k *key) expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

func (k *key) expiry() error {
	return unknown("API key " + k.Prefix + "... has expired at " + k.Expires.Format(time.RFC3339))
}

func (k *key) off() error { return unknown("API key " + k.Prefix + "... is disabled") }

func (k *key) public() admin.Key {
	return admin.Key{
		ID: k.ID, Name: k.Name, Prefix: k.Prefix, Rights: k.Rights.Names(), Models: append([]string{}, k.Models...),
		Origins: append([]string{}, k.Origins...), Rate: k.Rate, Concurrency: k.Concurrency,
		Disabled: k.Disabled, Created: k.Created, CreatedBy: k.CreatedBy, Expires: k.Expires, LastUsed: k.LastUsed,
	}
}

// newSecret returns a secret of 192 bits with check digits, by which a mistyped one is told from a wrong one.
func newSecret(prefix string) string {
	text := random(24)
	return fmt.Sprintf("%s%s%08x", prefix, text, crc32.ChecksumIEEE([]byte(text)))
}

// mistyped tells whether a secret's check digits are wrong.
func mistyped(secret string) bool {
	text := secret[len(keyPrefix):]
	return len(text) != 56 || fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text[:48]))) != text[48:]
}

// Keys lists the keys, by name.
func (a *Accounts) Keys() []admin.Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []admin.Key{}
	for _, k := range sortedBy(a.keys, func(k *key) string { return k.Name + "\x00" + k.ID }) {
		list = append(list, k.public())
	}
	return list
}

// CreateKey makes a key for by, who cannot give away rights that by lacks. Errors: Invalid with Field, Denied,
// TooLarge.
func (a *Accounts) CreateKey(n admin.KeyNew, by *edgewise.Principal) (admin.KeySecret, error) {
	const op = "auth.CreateKey"
	secret := newSecret(keyPrefix)
	hash := digest(secret)
	k := &key{
		ID: random(8), Hash: hex.EncodeToString(hash[:]), Name: n.Name, Prefix: secret[:shownPrefix], Models: n.Models,
		Origins: n.Origins, Rate: n.Rate, Concurrency: n.Concurrency,
		Created: time.Now().UTC(), CreatedBy: by.Actor(), Expires: n.Expires.UTC(),
	}
	if n.Expires.IsZero() {
		k.Expires = time.Time{}
	} else if n.Expires.Before(time.Now()) {
		return admin.KeySecret{}, wrong(op, "expires", "the key would have expired already, at %v", n.Expires)
	}
	if err := k.grant(n.Rights, by); err != nil {
		return admin.KeySecret{}, err
	}
	if err := k.check(); err != nil {
		return admin.KeySecret{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.keys) >= MaxKeys {
		return admin.KeySecret{}, edgewise.Errorf(op, edgewise.TooLarge, "there are %d keys, which is the limit", MaxKeys)
	}
	if err := a.put(keysBucket, k.ID, k); err != nil {
		return admin.KeySecret{}, err
	}
	a.keys[hash] = k.ready()
	return admin.KeySecret{Key: k.public(), Secret: secret}, nil
}

// grant sets a key's rights.
func (k *key) grant(names []string, by *edgewise.Principal) error {
	rights, err := parseRights(names)
	switch {
	case err != nil:
		return wrong("auth.grant", "rights", "%w", err)
	case rights == 0:
		return wrong("auth.grant", "rights", "the key has no right: want at least one of %s",
			strings.Join(edgewise.AllRights.Names(), ", "))
	case rights&^by.Rights != 0:
		return edgewise.Errorf("auth.grant", edgewise.Denied, "%s may not give away the rights %s, having not all of them",
			by.Actor(), strings.Join(rights.Names(), ", "))
	}
	k.Rights = rights
	return nil
}

// parseRights returns the set of the named rights. Errors: Invalid, naming the one that does not exist.
func parseRights(names []string) (set edgewise.Rights, err error) {
	all := edgewise.AllRights.Names()
	for _, name := range names {
		bit := slices.Index(all, name)
		if bit < 0 {
			return 0, edgewise.Errorf("auth.parseRights", edgewise.Invalid, "right %.40q does not exist: want one of %s", name,
				strings.Join(all, ", "))
		}
		set |= 1 << bit
	}
	return set, nil
}

func (k *key) check() error {
	const op = "auth.key.check"
	switch {
	case strings.TrimSpace(k.Name) == "" || len(k.Name) > maxKeyName:
		return wrong(op, "name", "the key's name has %d bytes: want 1 to %d", len(k.Name), maxKeyName)
	case len(k.Models) > maxKeyModels:
		return wrong(op, "models", "the key names %d models: want at most %d", len(k.Models), maxKeyModels)
	case len(k.Origins) > maxKeyOrigins:
		return wrong(op, "origins", "the key names %d origins: want at most %d", len(k.Origins), maxKeyOrigins)
	case k.Rate < 0 || k.Rate > maxRate || k.Rate != k.Rate:
		return wrong(op, "rate", "the key's rate is %v requests a second: want 0 (no bound) to %v", k.Rate, maxRate)
	case k.Concurrency < 0 || k.Concurrency > maxConcurrency:
		return wrong(op, "concurrency", "the key's concurrency is %d: want 0 (no bound) to %d", k.Concurrency, maxConcurrency)
	}
	for _, o := range k.Origins {
		if err := edgewise.CheckOrigin(o); err != nil {
			return wrong(op, "origins", "%w", err)
		}
	}
	for _, m := range k.Models {
		if name := strings.TrimSuffix(m, "*"); name != "" || m == "" {
			if err := edgewise.CheckName(name); err != nil {
				return wrong(op, "models", "%w", err)
			}
		}
	}
	return nil
}

// ChangeKey changes what is not nil. Errors: NotFound, and those of CreateKey.
func (a *Accounts) ChangeKey(id string, c admin.KeyChange, by *edgewise.Principal) (admin.Key, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, err := a.key(id)
	if err != nil {
		return admin.Key{}, err
	}
	k := *old
	if c.Rights != nil {
		if err := k.grant(*c.Rights, by); err != nil {
			return admin.Key{}, err
		}
	}
	set(&k.Name, c.Name)
	set(&k.Models, c.Models)
	set(&k.Origins, c.Origins)
	set(&k.Rate, c.Rate)
	set(&k.Concurrency, c.Concurrency)
	set(&k.Disabled, c.Disabled)
	if err := k.check(); err != nil {
		return admin.Key{}, err
	}
	if err := a.put(keysBucket, k.ID, &k); err != nil {
		return admin.Key{}, err
	}
	running := old.running
	switch {
	case k.Disabled:
		k.life.over(k.off())
	case k.Rights != old.Rights || !slices.Equal(k.Models, old.Models):
		k.life.over(changed("API key " + k.Prefix + "..."))
	}
	*old = k
	old.ready()
	old.running = running
	return old.public(), nil
}

// RenameModel lets keys that name a model name it by its new name. Patterns stay as they are.
func (a *Accounts) RenameModel(name, to string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.keys {
		i := slices.Index(k.Models, name)
		if i < 0 {
			continue
		}
		next := *k
		next.Models = slices.Clone(k.Models)
		next.Models[i] = to
		if err := a.put(keysBucket, k.ID, &next); err != nil {
			return err
		}
		k.Models = next.Models
		k.life.over(changed("API key " + k.Prefix + "..."))
		k.ready()
	}
	return nil
}

// HasOrigin tells whether there is a key that pages of an origin may use.
func (a *Accounts) HasOrigin(origin string) bool {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.keys {
		if !k.Disabled && !k.expired(now) && (slices.Contains(k.Origins, origin) || slices.Contains(k.Origins, "*")) {
			return true
		}
	}
	return false
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// DeleteKey revokes a key. Errors: NotFound.
func (a *Accounts) DeleteKey(id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, err := a.key(id)
	if err != nil {
		return err
	}
	if err := a.remove(keysBucket, id); err != nil {
		return err
	}
	if hash, ok := unhex(k.Hash); ok {
		delete(a.keys, hash)
	}
	k.life.over(revoked())
	return nil
}

func revoked() error {
	return unknown("this API key is not known here: it was revoked or belongs to another box")
}

func (a *Accounts) key(id string) (*key, error) {
	for _, k := range a.keys {
		if k.ID == id {
			return k, nil
		}
	}
	return nil, edgewise.Errorf("auth.key", edgewise.NotFound, "there is no key %.64q", id)
}

// keyPrincipal returns the principal of a key, and counts a request against the key's bounds.
func (a *Accounts) keyPrincipal(secret string) (p *edgewise.Principal, done func(), err error) {
	if mistyped(secret) {
		return nil, nil, notAKey()
	}
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.keys[digest(secret)]
	switch {
	case k == nil:
		return nil, nil, revoked()
	case k.Disabled:
		return nil, nil, k.off()
	case k.expired(now):
		k.life.over(k.expiry())
		return nil, nil, k.expiry()
	}
	if err := k.admit(now); err != nil {
		return nil, nil, err
	}
	k.LastUsed = now.UTC()
	if k.Concurrency == 0 {
		return k.principal, nil, nil
	}
	k.running++
	return k.principal, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		k.running--
	}, nil
}

// admit counts a request against the key's bounds.
func (k *key) admit(now time.Time) error {
	const op = "auth.admit"
	if k.Concurrency > 0 && k.running >= k.Concurrency {
		return tooMany(op, int64(k.Concurrency), time.Second, "API key %s... has %d requests in progress, which is its limit",
			k.Prefix, k.Concurrency)
	}
	if k.Rate == 0 {
		return nil
	}
	if wait := k.tokens.take(now, k.Rate, max(1, k.Rate*burst)); wait > 0 {
		return tooMany(op, 0, wait, "API key %s... may make %v requests a second", k.Prefix, k.Rate)
	}
	return nil
}
