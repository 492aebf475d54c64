package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/edgewise-ai/edgewise"
)

// AccountBuckets returns the buckets of what a backup with accounts holds, each with the most documents that it may
// have.
func AccountBuckets() map[string]int {
	return map[string]int{usersBucket: MaxUsers, keysBucket: MaxKeys}
}

// CheckDocument tells whether a document may stand under a key of one of this package's buckets. Documents of other
// buckets pass. The error names the document and not what it holds. Errors: Invalid.
func CheckDocument(bucket, key string, value []byte) error {
	var err error
	switch bucket {
	case usersBucket:
		_, err = decodeUser(key, value)
	case keysBucket:
		_, err = decodeKey(key, value)
	case sessionsBucket:
		_, err = decodeSession(key, value)
	case auditBucket:
		err = decode(value, &line{})
	case claimBucket:
		if key != claimKey {
			err = fmt.Errorf("there is no such key")
		}
	}
	if err != nil {
		return edgewise.Errorf("auth.CheckDocument", edgewise.Invalid, "%s: document %.80q: %w", bucket, key, err)
	}
	return nil
}

// decode reads a document without quoting it: it may hold a hash.
func decode(value []byte, into any) error {
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("it is not the JSON that it should be")
	}
	return nil
}

func decodeUser(key string, value []byte) (*user, error) {
	u := &user{}
	if err := decode(value, u); err != nil {
		return nil, err
	}
	if err := checkUser(u.Name); err != nil {
		return nil, err
	}
	if fold(u.Name) != key {
		return nil, fmt.Errorf("it is of the user %.80q", u.Name)
	}
	if err := checkRole(u.Role); err != nil {
		return nil, err
	}
	if _, ok := readHash(u.Password); !ok {
		return nil, fmt.Errorf("its password is not a hash that this box can compare")
	}
	return u, nil
}

func decodeKey(id string, value []byte) (*key, error) {
	k := &key{}
	if err := decode(value, k); err != nil {
		return nil, err
	}
	if _, ok := unhex(k.Hash); !ok {
		return nil, fmt.Errorf("its hash is not %d hexadecimal digits", hex.EncodedLen(sha256.Size))
	}
	if k.ID != id || id == "" || strings.ContainsAny(id, "/?#") {
		return nil, fmt.Errorf("it is of the key %.80q", k.ID)
	}
	if k.Rights == 0 || k.Rights&^edgewise.AllRights != 0 {
		return nil, fmt.Errorf("it has the rights %d: want a sum of 1, 2, 4, 8 and 16", k.Rights)
	}
	return k, k.check()
}

func decodeSession(id string, value []byte) (*session, error) {
	s := &session{}
	if err := decode(value, s); err != nil {
		return nil, err
	}
	if _, ok := unhex(s.Hash); !ok || s.ID != id {
		return nil, fmt.Errorf("it is of the session %.80q, with a hash of %d characters", s.ID, len(s.Hash))
	}
	return s, nil
}

// load reads everything. A document that is damaged is left out and logged: it must not keep everybody else out.
func (a *Accounts) load(tx edgewise.DocumentsTx) error {
	each := func(bucket string, read func(key string, value []byte) error) error {
		return tx.Each(bucket, func(key string, value []byte) error {
			if err := read(key, value); err != nil {
				if bucket == usersBucket {
					a.damagedUsers = true
				}
				a.cfg.Log.Error("a document of the accounts is damaged and has no effect: edgewise doctor says more", "bucket",
					bucket, "document", key, "error", err)
			}
			return nil
		})
	}
	return errors.Join(each(usersBucket, func(key string, value []byte) error {
		u, err := decodeUser(key, value)
		if err == nil {
			a.users[key] = u
		}
		return err
	}), each(sessionsBucket, func(key string, value []byte) error {
		s, err := decodeSession(key, value)
		if err == nil {
			hash, _ := unhex(s.Hash)
			a.sessions[hash] = s
		}
		return err
	}), each(keysBucket, func(id string, value []byte) error {
		k, err := decodeKey(id, value)
		if err == nil {
			hash, _ := unhex(k.Hash)
			a.keys[hash] = k.ready()
		}
		return err
	}))
}

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
