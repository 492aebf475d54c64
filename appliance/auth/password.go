package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Bounds of passwords.
const (
	MinPassword   = 12   // bytes
	MaxPassword   = 1024 // bytes
	minCharacters = 5    // different ones
)

// Cost is what it costs to hash a password once.
type Cost struct {
	Time    uint32 // passes
	Memory  uint32 // KiB
	Threads uint8
}

// DefaultCost takes about 50 ms of a desktop's core and half a second of a small board's.
var DefaultCost = Cost{Time: 2, Memory: 19 << 10, Threads: 1}

const (
	saltBytes = 16
	hashBytes = 32
)

// hash returns the hash of a password in the usual text form, with its cost and salt.
func (c Cost) hash(password string) string {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // which cannot fail
	sum := argon2.IDKey([]byte(password), salt, c.Time, c.Memory, c.Threads, hashBytes)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.Memory, c.Time, c.Threads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum))
}

// Bounds of the cost that a stored hash may ask for: a restored file must not take the box down.
const (
	maxHashMemory = 1 << 20 // KiB
	maxHashTime   = 64
)

// matches tells whether a password has a hash. A hash that cannot be read matches nothing.
func matches(password, hash string) bool {
	stored, ok := readHash(hash)
	if !ok {
		return false
	}
	got := argon2.IDKey([]byte(password), stored.salt, stored.Time, stored.Memory, stored.Threads, hashBytes)
	return subtle.ConstantTimeCompare(got, stored.sum) == 1
}

// storedHash is what a password hash says in its usual text form.
type storedHash struct {
	Cost
	salt, sum []byte
}

// readHash reads a hash; ok is false for one that is not of this form or costs more than the bounds.
func readHash(hash string) (h storedHash, ok bool) {
	var version int
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return h, false
	}
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return h, false
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.Memory, &h.Time, &h.Threads); err != nil {
		return h, false
	}
	if h.Memory > maxHashMemory || h.Time > maxHashTime || h.Time == 0 || h.Threads == 0 {
		return h, false
	}
	var err, bad error
	h.salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	h.sum, bad = base64.RawStdEncoding.DecodeString(parts[5])
	return h, err == nil && bad == nil && len(h.sum) == hashBytes
}

// checkPassword says what is wrong with a new password.
func checkPassword(field, user, password string) error {
	const op = "auth.checkPassword"
	switch {
	case len(password) < MinPassword:
		return wrong(op, field, "the password has %d characters: want %d or more", utf8.RuneCountInString(password),
			MinPassword)
	case len(password) > MaxPassword:
		return wrong(op, field, "the password has %d bytes: want at most %d", len(password), MaxPassword)
	case different(password) < minCharacters:
		return wrong(op, field, "the password repeats the same %d characters: want %d different ones or more",
			different(password), minCharacters)
	case len(user) > 3 && strings.Contains(fold(password), fold(user)):
		return wrong(op, field, "the password holds the user's name: choose one that does not")
	case common(fold(password)):
		return wrong(op, field, "the password is one of those that are tried first: choose another")
	}
	return nil
}

func different(text string) int {
	seen := map[rune]bool{}
	for _, r := range text {
		seen[r] = true
	}
	return len(seen)
}

// common tells whether a password, in small letters, is made of nothing but words that everybody tries first.
func common(password string) bool {
	rest := strings.Trim(password, "0123456789!?.,-_*#$@ ")
	for changed := true; changed && rest != ""; {
		changed = false
		for _, word := range commonWords {
			if after, ok := strings.CutPrefix(rest, word); ok {
				rest, changed = strings.Trim(after, "0123456789!?.,-_*#$@ "), true
			}
		}
	}
	return rest == ""
}

// commonWords begin the lists of passwords that are tried first.
var commonWords = []string{
	"password", "passwort", "passw0rd", "p@ssw0rd", "p@ssword", "qwertyuiop", "qwertzuiop", "azertyuiop", "qwerty",
	"qwertz", "azerty", "asdfghjkl", "asdfgh", "zxcvbnm", "yxcvbnm",
	"q1w2e3r4t5y6", "1q2w3e4r5t6y", "1qaz2wsx3edc", "1qaz2wsx", "qazwsxedc", "qazwsx", "abcdefghijkl", "abcdefgh",
	"abcdef", "abc",
	"administrator", "admin", "root", "superuser", "letmein", "welcome", "changeme", "iloveyou", "monkey", "dragon",
	"sunshine", "princess", "football", "baseball", "starwars",
	"trustno", "master", "shadow", "michael", "superman", "batman", "computer", "internet", "secret", "default",
	"raspberry", "edgewise", "appliance", "login", "test", "user", "guest", "hello",
}

// random returns n random bytes as lower-case hexadecimal.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // which cannot fail
	return hex.EncodeToString(b)
}

func digest(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

func unhex(text string) (sum [sha256.Size]byte, ok bool) {
	b, err := hex.DecodeString(text)
	return [sha256.Size]byte(append(b, make([]byte, sha256.Size)...)[:sha256.Size]), err == nil && len(b) == sha256.Size
}

// hashWait bounds the wait for one's turn to be hashed.
const hashWait = 10 * time.Second

// turn waits for one's turn to be hashed. Errors: Busy.
func (a *Accounts) turn() (done func(), err error) {
	timer := time.NewTimer(hashWait)
	defer timer.Stop()
	select {
	case <-a.hash:
		return func() { a.hash <- struct{}{} }, nil
	case <-timer.C:
		return nil, limited("too many people log in at once", time.Second)
	}
}

// verify tells whether a password has a hash. Errors: Busy.
func (a *Accounts) verify(password, hash string) (bool, error) {
	done, err := a.turn()
	if err != nil {
		return false, err
	}
	defer done()
	return matches(password, hash), nil
}

// newHash hashes a password. Errors: Busy.
func (a *Accounts) newHash(password string) (string, error) {
	done, err := a.turn()
	if err != nil {
		return "", err
	}
	defer done()
	return a.cfg.Hashing.hash(password), nil
}
