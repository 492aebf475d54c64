package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
)

// signer is a pair of keys, the public one in a folder.
type signer struct {
	folder string
	key    minisign.PrivateKey
}

func newSigner(t *testing.T) signer {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := public.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	s := signer{t.TempDir(), private}
	if err := os.WriteFile(filepath.Join(s.folder, "fleet.pub"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s signer) sign(text string) []byte { return minisign.Sign(s.key, []byte(text)) }

// accept believes a document of the test's own.
func (s signer) accept(t *testing.T, text string) *accepted {
	t.Helper()
	keys, err := keysIn(s.folder)
	if err != nil {
		t.Fatal(err)
	}
	a, err := believe(keys, []byte(text), s.sign(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOnlyWhatATrustedKeyHasSignedIsBelieved(t *testing.T) {
	own, foreign := newSigner(t), newSigner(t)
	keys, err := keysIn(own.folder)
	if err != nil {
		t.Fatal(err)
	}
	good := text(3, entry("1", ""))
	truncated := own.sign(good)[:60]
	tests := []struct {
		name      string
		text      string
		signature []byte
		wrong     string
	}{
		{"signed", good, own.sign(good), ""},
		{"unsigned", good, nil, "it is not signed"},
		{"not a signature", good, []byte("signed, me"), "no signature of minisign"},
		{"half a signature", good, truncated, "no signature of minisign"},
		{"signed by a stranger", good, foreign.sign(good), "which this box does not trust"},
		{"changed after it was signed", text(4, entry("1", "")), own.sign(good), "it is not what key"},
		{"one byte more", good + " ", own.sign(good), "it is not what key"},
		{"signed and no document", "[]", own.sign("[]"), "fleet.json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := believe(keys, []byte(tt.text), tt.signature)
			if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("%v: want %q", err, tt.wrong)
			}
		})
	}
}

func TestWithoutAKeyNothingIsBelieved(t *testing.T) {
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, "fleet.pub"), []byte("RWT"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"", t.TempDir(), damaged, filepath.Join(damaged, "none")} {
		if _, err := keysIn(folder); edgewise.KindOf(err) != edgewise.Denied {
			t.Errorf("%q: %v", folder, err)
		}
	}
}

func TestASerialGrows(t *testing.T) {
	s := newSigner(t)
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	before := s.accept(t, text(5, entry("1", "")))
	tests := []struct {
		name, text string
		before     *accepted
		now        time.Time
		wrong      string
	}{
		{"the first one", text(5, ""), nil, now, ""},
		{"the next one", text(6, ""), before, now, ""},
		{"the same one", text(5, entry("1", "")), before, now, ""},
		{"an older one", text(4, entry("1", "")), before, now, "has followed 5 already"},
		{"another one with the same serial", text(5, entry("2", "")), before, now, "two documents with the serial 5"},
		{"one of another fleet", strings.Replace(text(6, ""), "shops", "labs", 1), before, now, `of the fleet "labs"`},
		{"one that has expired", text(6, `, "expires": "2026-05-01T00:00:00Z"`), before, now, "expired"},
		{"one that has not, by a clock in 1970", text(6, `, "expires": "2026-05-01T00:00:00Z"`), before, time.Unix(0, 0), ""},
		{"one that has, by a clock in the future", text(6, `, "expires": "2027-01-01T00:00:00Z"`), before, now.AddDate(70, 0, 0), "expired"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := s.accept(t, tt.text).succeeds(tt.before, tt.now)
			if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("%v: want %q", err, tt.wrong)
			}
		})
	}
}

func TestAClockThatIsWrongStartsNothing(t *testing.T) {
	s := newSigner(t)
	a := s.accept(t, text(1, `, "not_before": "2026-01-01T00:00:00Z", "expires": "2027-01-01T00:00:00Z"`))
	a.signed = time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		time.Unix(0, 0): admin.FleetWaiting, a.signed: admin.FleetWaiting, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC): "",
		time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC): admin.FleetExpired,
	} {
		if state, reason := a.standing(at); state != want || (reason == "") != (want == "") {
			t.Errorf("at %v it is %q: %s", at, state, reason)
		}
		if warned := a.clockWarning(at) != ""; warned != (at.Year() == 1970) {
			t.Errorf("at %v: %q", at, a.clockWarning(at))
		}
	}
}
