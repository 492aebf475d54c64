//go:build registry

package e2e

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// ociRegistry is Debian's docker-registry.
type ociRegistry struct {
	host   string
	folder string
	config string // its file
	cmd    *exec.Cmd
}

func serveRegistry(t *testing.T) *ociRegistry {
	t.Helper()
	return serveRegistryWith(t, "")
}

// serveRegistryWith serves one with more lines in its configuration.
func serveRegistryWith(t *testing.T, more string) *ociRegistry {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &ociRegistry{host: l.Addr().String(), folder: t.TempDir()}
	_ = l.Close()
	config := filepath.Join(t.TempDir(), "registry.yml")
	text := fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %s}, cache: {}}\nhttp: {addr: %s}\nlog: {level: error}\n%s",
		r.folder, r.host, more)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.config = config
	r.start(t)
	t.Cleanup(r.stop)
	return r
}

func (r *ociRegistry) stop() { _, _ = r.cmd.Process.Kill(), r.cmd.Wait() }

// start starts the registry and waits until it answers.
func (r *ociRegistry) start(t *testing.T) {
	t.Helper()
	r.cmd = exec.Command("docker-registry", "serve", r.config)
	if err := r.cmd.Start(); err != nil {
		t.Fatalf("Debian's package docker-registry is needed: %v", err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if res, err := http.Get("http://" + r.host + "/v2/"); err == nil {
			_ = res.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the registry does not answer")
		}
	}
}

// stepFolder makes a folder with a step and a file of so many bytes that no registry has.
func stepFolder(t *testing.T, size int) string {
	t.Helper()
	module, err := os.ReadFile("../../configs/demo/steps/anchors.wasm")
	if err != nil {
		t.Fatal(err)
	}
	beside := make([]byte, size)
	_, _ = rand.Read(beside)
	folder := t.TempDir()
	for name, data := range map[string][]byte{"model.wasm": module, "beside.bin": beside} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// newest returns the newest version of a model.
func (b *box) newest(model string) admin.Version {
	b.t.Helper()
	m, err := b.client.Model(context.Background(), model)
	if err != nil || len(m.Versions) == 0 {
		b.t.Fatalf("model %s: %v", model, err)
	}
	return m.Versions[len(m.Versions)-1]
}

// filesOf are the digests of a version's files by their paths.
func filesOf(v admin.Version) string {
	text, _ := json.Marshal(v.Files)
	return string(text)
}

func TestAVersionTravelsThroughARegistry(t *testing.T) {
	r := serveRegistry(t)
	from, to := serveReady(t, t.TempDir()), serveReady(t, t.TempDir())
	from.must("model", "push", "anchors", stepFolder(t, 3<<20))
	said := from.must("model", "push", "anchors", "oci://"+r.host+"/models/anchors:1")
	pinned := strings.TrimSpace(said[strings.LastIndex(said, " "):])
	if again := from.must("model", "push", "anchors:1", "oci://"+r.host+"/models/anchors:1"); again != said {
		t.Errorf("published again: %s, before: %s", again, said)
	}
	to.must("model", "pull", r.host+"/models/anchors:1")
	to.must("model", "pull", "--name", "other", "--stage", pinned)
	for _, model := range []string{"anchors", "other"} {
		got := to.newest(model)
		if filesOf(got) != filesOf(from.newest("anchors")) || got.Origin != "oci://"+pinned {
			t.Errorf("%s came from %s as %s, want %s", model, got.Origin, filesOf(got), filesOf(from.newest("anchors")))
		}
	}
	if _, stderr, code := to.run("model", "pull", r.host+"/models/anchors:2"); code == 0 || !strings.Contains(stderr, "not found") {
		t.Errorf("a tag that is not there: %d %s", code, stderr)
	}
}

func TestARegistryIsAModelRepository(t *testing.T) {
	r := serveRegistry(t)
	from := serveReady(t, t.TempDir())
	from.must("model", "push", "anchors", stepFolder(t, 1000))
	from.must("model", "push", "anchors", "oci://"+r.host+"/models/anchors:7")
	data := t.TempDir()
	to := serveReady(t, data, "--set", "repository.folders=oci://"+r.host+"/models/anchors")
	if got := to.newest("anchors"); filesOf(got) != filesOf(from.newest("anchors")) || got.Version != 7 {
		t.Errorf("it has version %d with %s", got.Version, filesOf(got))
	}
	to.stop()
	_ = r.cmd.Process.Kill()
	again := serveReady(t, data, "--set", "repository.folders=oci://"+r.host+"/models/anchors")
	if got := again.newest("anchors"); got.Version != 7 {
		t.Errorf("without the registry it has version %d", got.Version)
	}
}

func TestABoxRefusesWhatNoTrustedKeyHasSigned(t *testing.T) {
	r := serveRegistry(t)
	keys, secret := t.TempDir(), filepath.Join(t.TempDir(), "release.key")
	foreign := secret + ".foreign"
	for _, pair := range [][2]string{{filepath.Join(keys, "release.pub"), secret}, {filepath.Join(t.TempDir(), "foreign.pub"), foreign}} {
		if text, err := exec.Command("minisign", "-G", "-W", "-p", pair[0], "-s", pair[1]).CombinedOutput(); err != nil {
			t.Fatalf("Debian's package minisign is needed: %v: %s", err, text)
		}
	}
	from := serveReady(t, t.TempDir())
	to := serveReady(t, t.TempDir(), "--set", "registry.trusted_keys="+keys, "--set", "registry.require_signature=true")
	from.must("model", "push", "anchors", stepFolder(t, 1000))
	reference := r.host + "/models/anchors:1"
	from.must("model", "push", "anchors", "oci://"+reference)
	wantRefusal := func(text string) {
		t.Helper()
		if _, stderr, code := to.run("model", "pull", reference); code == 0 || !strings.Contains(stderr, text) {
			t.Errorf("%d: %s: want %q", code, stderr, text)
		}
	}
	wantRefusal("it is not signed")
	from.must("model", "sign", reference, "--key", foreign)
	wantRefusal("which this box does not trust")
	from.must("model", "sign", reference, "--key", secret)
	to.must("model", "pull", reference)
	checkByMinisign(t, r, filepath.Join(keys, "release.pub"))
}

// checkByMinisign verifies the signature in a registry without referrers by the tool.
func checkByMinisign(t *testing.T, r *ociRegistry, key string) {
	t.Helper()
	get := func(path, accept string) []byte {
		req, err := http.NewRequest(http.MethodGet, "http://"+r.host+"/v2/models/anchors/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v: %s: %s", path, err, res.Status, text)
		}
		return text
	}
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest := get("manifests/1", manifestType)
	var index struct{ Manifests []struct{ Digest string } }
	referrers := fmt.Sprintf("manifests/sha256-%x", sha256.Sum256(manifest))
	if err := json.Unmarshal(get(referrers, "application/vnd.oci.image.index.v1+json"), &index); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "manifest.json"), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	good := 0
	for _, m := range index.Manifests {
		var signature struct{ Layers []struct{ Digest string } }
		if err := json.Unmarshal(get("manifests/"+m.Digest, manifestType), &signature); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, "manifest.json.minisig")
		if err := os.WriteFile(path, get("blobs/"+signature.Layers[0].Digest, "*/*"), 0o600); err != nil {
			t.Fatal(err)
		}
		if exec.Command("minisign", "-V", "-p", key, "-m", filepath.Join(folder, "manifest.json")).Run() == nil {
			good++
		}
	}
	if len(index.Manifests) != 2 || good != 1 {
		t.Errorf("minisign believes %d of %d signatures, want 1 of 2", good, len(index.Manifests))
	}
}

func TestAByteThatWasChangedInTheRegistryIsRefusedAndWhatServesGoesOn(t *testing.T) {
	r := serveRegistry(t)
	from, to := serveReady(t, t.TempDir()), serveReady(t, t.TempDir())
	from.must("model", "push", "anchors", stepFolder(t, 1000))
	from.must("model", "push", "anchors", "oci://"+r.host+"/models/anchors:1")
	to.must("model", "pull", r.host+"/models/anchors:1")
	from.must("model", "push", "anchors", stepFolder(t, 1<<20))
	from.must("model", "push", "anchors", "oci://"+r.host+"/models/anchors:2")
	changed := 0
	err := filepath.WalkDir(r.folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() != 1<<20 {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		data[len(data)/2] ^= 1
		changed++
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil || changed != 1 {
		t.Fatalf("%v: %d blobs were changed", err, changed)
	}
	if _, stderr, code := to.run("model", "pull", r.host+"/models/anchors:2"); code == 0 || !strings.Contains(stderr, "corrupt") {
		t.Errorf("%d: %s", code, stderr)
	}
	if m, err := to.client.Model(context.Background(), "anchors"); err != nil || len(m.Versions) != 1 || m.Labels[0].Version != 1 {
		t.Errorf("%v: it has %+v", err, m)
	}
}

func TestAPullThatWasKilledGoesOnWithTheNextStart(t *testing.T) {
	r := serveRegistry(t)
	data := t.TempDir()
	from, to := serveReady(t, t.TempDir()), serveReady(t, data)
	from.must("model", "push", "anchors", stepFolder(t, 128<<20))
	from.must("model", "push", "anchors", "oci://"+r.host+"/models/anchors:1")
	slow, proceed := holdAfter(t, r.host, 16<<20)
	pull := make(chan struct{})
	go func() {
		defer close(pull)
		_, _, _ = to.run("model", "pull", slow+"/models/anchors:1")
	}()
	part := awaitPart(t, filepath.Join(data, "pulls"))
	to.kill()
	<-pull
	if _, err := os.Stat(part); err != nil {
		t.Fatal("the part went with the box")
	}
	proceed()
	again := serveReady(t, data)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if m, err := again.client.Model(context.Background(), "anchors"); err == nil && len(m.Versions) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the job does not go on:\n%s", again.output())
		}
	}
	if got := again.newest("anchors"); filesOf(got) != filesOf(from.newest("anchors")) {
		t.Errorf("it has %s", filesOf(got))
	}
}

// holdAfter starts a proxy of a server that sends no more than n bytes of an answer until proceed is called.
func holdAfter(t *testing.T, host string, n int64) (address string, proceed func()) {
	t.Helper()
	open := make(chan struct{})
	proceed = sync.OnceFunc(func() { close(open) })
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host})
	proxy.FlushInterval = -1
	proxy.ModifyResponse = func(res *http.Response) error {
		gate := readerFunc(func([]byte) (int, error) {
			<-open
			return 0, io.EOF
		})
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(res.Body, n), gate, res.Body), res.Body}
		return nil
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(func() {
		proceed()
		s.Close()
	})
	return strings.TrimPrefix(s.URL, "http://"), proceed
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// awaitPart waits for the beginning of a large file that is being fetched: a small one may be whole at the next look.
func awaitPart(t *testing.T, folder string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		parts, _ := filepath.Glob(filepath.Join(folder, "*", "parts", "*"))
		for _, part := range parts {
			if info, err := os.Stat(part); err == nil && info.Size() >= 1<<20 {
				return part
			}
		}
	}
	t.Fatal("nothing is fetched")
	return ""
}
