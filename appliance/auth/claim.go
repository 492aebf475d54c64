package auth

import (
	"crypto/rand"
	"crypto/subtle"
	"strings"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

const (
	claimKey     = "code"
	claimGroups  = 4
	claimPerPart = 4
	// claimAlphabet has 32 characters, none of which looks like another one.
	claimAlphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
)

// prepareClaim makes the claim code of a box that nobody has claimed. It stays the same until somebody has.
func (a *Accounts) prepareClaim() error {
	if len(a.users) > 0 || a.damagedUsers {
		return a.remove(claimBucket, claimKey)
	}
	_ = a.cfg.Documents.View(func(tx edgewise.DocumentsTx) error {
		a.code = string(tx.Get(claimBucket, claimKey))
		return nil
	})
	if a.code != "" {
		return nil
	}
	a.code = newClaimCode()
	return a.cfg.Documents.Update(func(tx edgewise.DocumentsTx) error {
		return tx.Put(claimBucket, claimKey, []byte(a.code))
	})
}

func newClaimCode() string {
	b := make([]byte, claimGroups*claimPerPart)
	_, _ = rand.Read(b) // which cannot fail
	var code strings.Builder
	for i, c := range b {
		if i > 0 && i%claimPerPart == 0 {
			code.WriteByte('-')
		}
		code.WriteByte(claimAlphabet[int(c)%len(claimAlphabet)])
	}
	return code.String()
}

// Claimed tells whether somebody may log in.
func (a *Accounts) Claimed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.code == ""
}

// ClaimCode returns the code that claims the box, empty when somebody has claimed it.
func (a *Accounts) ClaimCode() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.code
}

// Claim makes the first admin and logs in. Errors: Conflict when the box is claimed, Busy with Retry after ClaimTries
// wrong codes, Unauthenticated for a wrong code, Invalid with Field.
func (a *Accounts) Claim(c admin.Claim, from Caller) (Login, error) {
	const op = "auth.Claim"
	if err := checkUser(c.User); err != nil {
		return Login{}, err
	}
	if err := checkPassword("password", c.User, c.Password); err != nil {
		return Login{}, err
	}
	if err := a.checkCode(c.Code); err != nil {
		return Login{}, err
	}
	hash, err := a.newHash(c.Password)
	if err != nil {
		return Login{}, err
	}
	u := &user{Name: c.User, Role: RoleAdmin, Password: hash, Created: time.Now().UTC()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.code == "" { // somebody was faster
		return Login{}, edgewise.Errorf(op, edgewise.Conflict, "the box is claimed already: log in instead")
	}
	if err := a.put(usersBucket, fold(u.Name), u); err != nil {
		return Login{}, err
	}
	if err := a.remove(claimBucket, claimKey); err != nil {
		return Login{}, err
	}
	a.users[fold(u.Name)], a.code = u, ""
	return a.begin(u, from)
}

func (a *Accounts) checkCode(given string) error {
	const op = "auth.Claim"
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.code == "" {
		return edgewise.Errorf(op, edgewise.Conflict, "the box is claimed already: log in instead")
	}
	if wait := time.Until(a.claims.until); wait > 0 {
		return limited("too many wrong claim codes", wait)
	}
	if subtle.ConstantTimeCompare([]byte(plain(given)), []byte(plain(a.code))) == 1 {
		a.claims = pause{}
		return nil
	}
	if a.claims.wrong++; a.claims.wrong >= ClaimTries {
		a.claims = pause{until: time.Now().Add(ClaimPause)}
	}
	return edgewise.Errorf(op, edgewise.Unauthenticated, "this is not the claim code: it stands on the box's console "+
		"and in its log").WithField("code")
}

// plain makes codes that people write differently the same.
func plain(code string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToUpper(code))
}
