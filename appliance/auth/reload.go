package auth

import (
	"crypto/sha256"

	"github.com/edgewise-ai/edgewise"
)

// Reload reads users and keys again, after documents were put there by a restore. Sessions stay.
func (a *Accounts) Reload() error {
	fresh := &Accounts{
		cfg: a.cfg, users: map[string]*user{}, sessions: map[[sha256.Size]byte]*session{},
		keys: map[[sha256.Size]byte]*key{},
	}
	if err := a.cfg.Documents.View(func(tx edgewise.DocumentsTx) error { return fresh.load(tx) }); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for hash, k := range fresh.keys {
		if a.keys[hash] == nil {
			a.keys[hash] = k
		}
	}
	for name, u := range fresh.users {
		if a.users[name] == nil {
			a.users[name] = u
		}
	}
	return nil
}
