package auth

import (
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// Bearer returns the principal that a secret of an Authorization header belongs to, and counts a request. Both
// frontends call it for each request; it is the only code that tells the kinds of secrets apart. The caller calls done,
// unless it is nil, when the request has ended. Errors: Unauthenticated, Denied, Busy with Retry beyond a key's rate or
// concurrency.
func (a *Accounts) Bearer(secret string, loopback bool) (p *edgewise.Principal, done func(), err error) {
	switch {
	case strings.HasPrefix(secret, localPrefix):
		p, err = a.localPrincipal(secret, loopback)
		return p, nil, err
	case strings.HasPrefix(secret, keyPrefix):
		return a.keyPrincipal(secret)
	}
	return nil, nil, notAKey()
}

// notAKey is the error for a secret of no kind.
func notAKey() error {
	return unknown("this is not an API key: one begins with " + keyPrefix + ", and was copied whole")
}

// LocalToken makes a new secret for programs on the box itself, in place of the one before.
func (a *Accounts) LocalToken() string {
	secret := newSecret(localPrefix)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.local = digest(secret)
	a.localLife.over(unknown("the local token has changed"))
	return secret
}

func (a *Accounts) localPrincipal(secret string, loopback bool) (*edgewise.Principal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if digest(secret) != a.local {
		return nil, unknown("this is not the local token: it changes whenever the box starts")
	}
	if !loopback {
		return nil, edgewise.Errorf("auth.local", edgewise.Denied, "the local token is taken from the box itself only, not "+
			"over the network: make an API key instead")
	}
	return &edgewise.Principal{Kind: "local", Rights: edgewise.AllRights, Lifetime: a.localLife.context()}, nil
}
