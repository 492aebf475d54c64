//go:build registry

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// users writes the file of a registry's users, by their passwords.
func users(t *testing.T, file string, passwords map[string]string) {
	t.Helper()
	var text strings.Builder
	for name, password := range passwords {
		sum, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s:%s\n", name, sum)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestABoxServesWhileItsCredentialsOfARegistryAreRevoked takes the user of a box away from a registry, and gives the box another one.
func TestABoxServesWhileItsCredentialsOfARegistryAreRevoked(t *testing.T) {
	known := filepath.Join(t.TempDir(), "htpasswd")
	users(t, known, map[string]string{"box": "hush-one"})
	r := serveRegistryWith(t, fmt.Sprintf("auth: {htpasswd: {realm: models, path: %s}}\n", known))
	file := filepath.Join(t.TempDir(), "credentials.json")
	credentials := func(user, password string) {
		t.Helper()
		text, err := json.Marshal(map[string]any{"oci": map[string]any{"oci://" + r.host: map[string]string{"user": user, "password": password}}})
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	credentials("box", "hush-one")
	b := serveReady(t, t.TempDir(), "--set", "repository.credentials_file="+file)
	reference := r.host + "/models/cat:1"
	b.must("model", "push", "cat", save(t, biased(1)))
	b.must("model", "push", "cat", "oci://"+reference)
	b.must("model", "pull", reference, "--name", "pulled")
	refused := func() {
		t.Helper()
		for _, command := range [][]string{{"model", "pull", reference, "--name", "again"}, {"model", "push", "cat", "oci://" + reference}} {
			_, stderr, code := b.run(command...)
			if code == 0 || !strings.Contains(stderr, "denied") || strings.Contains(stderr, "hush") {
				t.Errorf("%v: %d: %s", command, code, stderr)
			}
		}
		b.wantBias("pulled", "1", 1)
	}
	credentials("box", "hush-wrong")
	refused()
	credentials("box", "hush-one")
	users(t, known, map[string]string{"other": "hush-two", "third": "hush-three"})
	refused()
	credentials("other", "hush-two")
	b.must("model", "pull", reference, "--name", "again")
	if strings.Contains(b.output(), "hush") {
		t.Error("the log has a password")
	}
}

// TestADiskThatIsFullWhileARegistrySendsChangesNothing fills the file system of a box, of 64 MiB, while a version of 24 MiB comes.
func TestADiskThatIsFullWhileARegistrySendsChangesNothing(t *testing.T) {
	r := serveRegistry(t)
	from := serveReady(t, t.TempDir())
	from.must("model", "push", "cat", save(t, biased(1)))
	from.must("model", "push", "cat", "oci://"+r.host+"/models/cat:1")
	from.must("model", "push", "anchors", stepFolder(t, 24<<20))
	from.must("model", "push", "anchors", "oci://"+r.host+"/models/anchors:1")
	slow, proceed := holdAfter(t, r.host, 8<<20)

	data := t.TempDir()
	space := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		space = append(space, "--user", "--map-root-user")
	}
	mount := append(space, "sh", "-c", `mount -t tmpfs -o size=64m tmpfs "$0" && exec "$@"`, data)
	to := serveWrapped(t, mount, data, "--set", "store.reserve_bytes=0")
	to.awaitReady()
	to.must("model", "pull", r.host+"/models/cat:1")
	inside := filepath.Join(fmt.Sprintf("/proc/%d/root", to.cmd.Process.Pid), data)
	pull := make(chan string)
	go func() {
		_, stderr, code := to.run("model", "pull", slow+"/models/anchors:1")
		pull <- fmt.Sprint(code, " ", stderr)
	}()
	awaitPart(t, filepath.Join(inside, "pulls"))
	filler := filepath.Join(inside, "filler")
	fill(t, filler)
	proceed()
	if said := <-pull; strings.HasPrefix(said, "0 ") || !strings.Contains(said, "exhausted") && !strings.Contains(said, "no space") {
		t.Errorf("it says %s", said)
	}
	to.wantBias("cat", "1", 1)
	if _, err := to.client.Model(context.Background(), "anchors"); err == nil {
		t.Error("the box has the version")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	to.must("model", "pull", r.host+"/models/anchors:1")
	if got := to.newest("anchors"); filesOf(got) != filesOf(from.newest("anchors")) {
		t.Errorf("it has %s", filesOf(got))
	}
}

// fill writes a file until its disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<20))
	}
	if _, err = f.Write(make([]byte, 1)); err == nil {
		t.Error("the disk is not full")
	}
	_ = f.Close()
}
