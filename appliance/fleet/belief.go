package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"aead.dev/minisign"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// accepted is a document that was believed, with its bytes.
type accepted struct {
	Fleet     string    `json:"fleet"`
	Serial    int64     `json:"serial"`
	Text      []byte    `json:"text"`
	Signature []byte    `json:"signature"`
	Digest    string    `json:"digest"` // of Text, as sha256:HEX
	SignedBy  string    `json:"signed_by"`
	Time      time.Time `json:"time"` // when it was accepted
	document  *Document
	signed    time.Time // as its signature says; zero: it says nothing
}

// maxKeys bounds the keys that are trusted.
const maxKeys = 100

// keysIn reads public keys of minisign, the files NAME.pub of a folder. Errors: Denied when there is none, or one cannot be read.
func keysIn(folder string) ([]minisign.PublicKey, error) {
	const op = "fleet.keys"
	if folder == "" {
		return nil, edgewise.Errorf(op, edgewise.Denied, "no document is believed: fleet.trusted_keys names no folder with keys")
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.pub"))
	if err != nil || len(paths) == 0 || len(paths) > maxKeys {
		return nil, edgewise.Errorf(op, edgewise.Denied, "no document is believed: the folder of fleet.trusted_keys has %d keys NAME.pub: "+
			"want 1 to %d", len(paths), maxKeys)
	}
	var keys []minisign.PublicKey
	for _, path := range paths {
		key, err := minisign.PublicKeyFromFile(path)
		if err != nil {
			return nil, edgewise.Errorf(op, edgewise.Denied, "no document is believed: %s is no public key of minisign", filepath.Base(path))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// believe decodes a document that one of the keys has signed. Errors: Denied, and those of Decode.
func believe(keys []minisign.PublicKey, text, signature []byte) (*accepted, error) {
	const op = "fleet.believe"
	var s minisign.Signature
	if len(signature) == 0 {
		return nil, edgewise.Errorf(op, edgewise.Denied, "the document is refused: it is not signed: there is no %s beside it", SignatureFile)
	}
	if err := s.UnmarshalText(signature); err != nil {
		return nil, edgewise.Errorf(op, edgewise.Denied, "the document is refused: %s is no signature of minisign", SignatureFile)
	}
	known := false
	for _, key := range keys {
		if key.ID() != s.KeyID {
			continue
		}
		known = true
		if !minisign.Verify(key, text, signature) {
			continue
		}
		d, err := Decode(text)
		if err != nil {
			return nil, err
		}
		return &accepted{
			Text: text, Signature: signature, Digest: digestOf(text), SignedBy: keyName(s.KeyID), document: d, signed: signedAt(&s),
		}, nil
	}
	if known {
		return nil, edgewise.Errorf(op, edgewise.Denied, "the document is refused: it is not what key %s has signed", keyName(s.KeyID))
	}
	return nil, edgewise.Errorf(op, edgewise.Denied, "the document is refused: key %s has signed it, which this box does not trust",
		keyName(s.KeyID))
}

// keyName is how minisign names a key.
func keyName(id uint64) string { return strings.ToUpper(strconv.FormatUint(id, 16)) }

// signedAt reads the time in a trusted comment, which the signature covers.
func signedAt(s *minisign.Signature) time.Time {
	for part := range strings.FieldsSeq(s.TrustedComment) {
		if text, ok := strings.CutPrefix(part, "timestamp:"); ok {
			if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
				return time.Unix(seconds, 0)
			}
		}
	}
	return time.Time{}
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// succeeds returns why a document does not come after the one that is followed; nil: it does, or is the same. now is what the clock
// of the box says. Errors: Denied.
func (a *accepted) succeeds(before *accepted, now time.Time) error {
	const op = "fleet.believe"
	refuse := func(format string, args ...any) error {
		return edgewise.Errorf(op, edgewise.Denied, "the document is refused: "+format, args...)
	}
	if e := a.document.Expires; !e.IsZero() && now.After(e) && (before == nil || before.Digest != a.Digest) {
		return refuse("it has expired at %s, and the clock of this box says %s", stamp(e), stamp(now))
	}
	if before == nil {
		return nil
	}
	was, is := before.document, a.document
	switch {
	case is.Fleet != was.Fleet:
		return refuse("it is of the fleet %q, and this box is of %q: \"edgewise fleet forget\" lets it change", is.Fleet, was.Fleet)
	case is.Serial < was.Serial:
		return refuse("its serial is %d, and this box has followed %d already", is.Serial, was.Serial)
	case is.Serial == was.Serial && a.Digest != before.Digest:
		return refuse("there are two documents with the serial %d: this box follows %.19s, and this one is %.19s", is.Serial, before.Digest,
			a.Digest)
	}
	return nil
}

// stamp writes a time for people.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// standing tells whether a document is to be followed at a time, and why not.
func (a *accepted) standing(now time.Time) (state, reason string) {
	switch d := a.document; {
	case !d.NotBefore.IsZero() && now.Before(d.NotBefore):
		return admin.FleetWaiting, fmt.Sprintf("it is not to be followed before %s, and the clock of this box says %s",
			stamp(d.NotBefore), stamp(now))
	case !d.Expires.IsZero() && now.After(d.Expires):
		return admin.FleetExpired, fmt.Sprintf("it has expired at %s, and the clock of this box says %s", stamp(d.Expires), stamp(now))
	}
	return "", ""
}

// clockWarning says that the clock must be wrong, "" when nothing speaks for that.
func (a *accepted) clockWarning(now time.Time) string {
	if a.signed.IsZero() || !now.Before(a.signed.Add(-clockError)) {
		return ""
	}
	return fmt.Sprintf("the clock of this box says %s, which is before the document was signed, at %s", stamp(now),
		stamp(a.signed))
}

// clockError is how much clocks may differ.
const clockError = 10 * time.Minute
