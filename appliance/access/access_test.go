package access

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestABoxIsFoundByItsPort(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, authority := t.TempDir(), filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, []byte("certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443}
	if got := To("8443"); got != (Local{}) {
		t.Fatalf("before there is a box: %+v", got)
	}
	first, err := Open(dir, "secret", authority, address)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := To("8443"), (Local{Token: "secret", Authority: authority}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	info, err := os.Stat(filepath.Join(dir, TokenFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v, %v; want 0600", info, err)
	}

	second, err := Open(t.TempDir(), "other", "", address)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	if got, want := To("8443"), (Local{Token: "other"}); got != want {
		t.Errorf("after another box has taken the port: got %+v, want %+v", got, want)
	}
	second.Close()
	if got := To("8443"); got != (Local{}) {
		t.Errorf("after both have ended: %+v", got)
	}
	Offer{}.Close()
}

func TestATokenThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := Open(filepath.Join(t.TempDir(), "missing"), "secret", "", &net.TCPAddr{Port: 1})
	if err == nil {
		t.Error("no error for a folder that does not exist")
	}
}

func TestAUserWithoutACacheFolderGetsTheTokenAlone(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	dir := t.TempDir()
	o, err := Open(dir, "secret", "", &net.TCPAddr{Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if text, err := os.ReadFile(filepath.Join(dir, TokenFile)); err != nil || string(text) != "secret\n" {
		t.Errorf("got %q, %v", text, err)
	}
}
