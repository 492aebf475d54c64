package oci

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/edgewise-ai/edgewise/api/fetch"
)

// blobs is a fault of blobs alone.
func blobs(f fault) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") && f(w, r)
	}
}

// manifests is a fault of manifests alone.
func manifests(f fault) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/manifests/") && f(w, r)
	}
}

// status answers with a status.
func status(code int, header ...string) fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		return true
	}
}

// times is a fault of the first n requests.
func times(n int, f fault) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if n--; n < 0 {
			return false
		}
		return f(w, r)
	}
}

// changed answers with the bytes of the registry, changed.
func (s *server) changed(change func(text []byte) []byte) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		answer := httptest.NewRecorder()
		s.handler.ServeHTTP(answer, r)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		text := change(answer.Body.Bytes())
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(text)
		return true
	}
}

func flip(text []byte) []byte {
	text[len(text)/2] ^= 1
	return text
}

// silence answers nothing until the client has gone.
func silence(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

func TestWhatARegistryDoesWrongIsRefused(t *testing.T) {
	s := newServer(t)
	url := "oci://" + s.host + "/box/cat:1"
	model := random(300_000)
	publish(t, url, map[string]string{"model.onnx": model})
	for _, c := range []struct {
		name  string
		fault fault
		kind  string // empty: it succeeds
		text  string
	}{
		{"credentials are missing", status(401, "Www-Authenticate", `Basic realm="r"`), fetch.Denied, ""},
		{"credentials are of no use", status(401), fetch.Denied, "wants credentials"},
		{"forbidden", status(403), fetch.Denied, "does not allow it"},
		{"forbidden blob", blobs(status(403)), fetch.Denied, "does not allow it"},
		{"no manifest", manifests(status(404)), fetch.NotFound, "box/cat:1"},
		{"no blob", blobs(status(404)), fetch.NotFound, ""},
		{"too many requests, once", times(1, status(429, "Retry-After", "1")), "", ""},
		{"too many requests, always", status(429, "Retry-After", "100000"), fetch.Unavailable, "answers 429"},
		{"an error, once", times(1, status(500)), "", ""},
		{"an error, always", status(500), fetch.Unavailable, "answers 500"},
		{"silence", silence, fetch.Unavailable, "timeout"},
		{"a half", blobs(s.changed(func(text []byte) []byte { return text[:len(text)/2] })), fetch.Corrupt, "Content-Length"},
		{"a flipped bit", blobs(s.changed(flip)), fetch.Corrupt, "SHA-256"},
		{"other bytes", blobs(s.changed(func(text []byte) []byte { return []byte(random(len(text))) })), fetch.Corrupt, "SHA-256"},
		{"more bytes", blobs(s.changed(func(text []byte) []byte { return append(text, 'x') })), fetch.Corrupt, "Content-Length"},
		{"a flipped bit in the manifest", manifests(s.changed(flip)), fetch.Corrupt, "digest"},
		{"another manifest", manifests(s.changed(func([]byte) []byte { return []byte(`{"schemaVersion":2}`) })), fetch.Corrupt, ""},
		{"it goes away", func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, fetch.Unavailable, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer s.set(nil)
			s.set(c.fault)
			folder, began := t.TempDir(), time.Now()
			got, err := pull(t, fetch.Request{URL: url}, folder)
			if c.kind == "" {
				if err != nil || got["cat/1/model.onnx"] != model {
					t.Errorf("%v", describeError(err))
				}
				return
			}
			wantFailure(t, err, c.kind, c.text)
			if left, _ := filepath.Glob(filepath.Join(folder, "files", "*")); len(left) > 0 {
				t.Errorf("there is %v", left)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
			s.set(nil)
			if got, err := pull(t, fetch.Request{URL: url}, folder); err != nil || got["cat/1/model.onnx"] != model {
				t.Errorf("afterwards: %v", describeError(err))
			}
		})
	}
}

// manifestWith is a manifest of one good file, changed.
func manifestWith(d ocispec.Descriptor, change func(m *ocispec.Manifest)) ocispec.Manifest {
	d.Annotations = map[string]string{ocispec.AnnotationTitle: "model.onnx"}
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType,
		Config: descriptorOf(configType, []byte("{}")), Layers: []ocispec.Descriptor{d},
	}
	change(&m)
	return m
}

// titled changes the titles of copies of the one file.
func titled(titles ...string) func(m *ocispec.Manifest) {
	return func(m *ocispec.Manifest) {
		layer := m.Layers[0]
		m.Layers = nil
		for _, title := range titles {
			layer.Annotations = map[string]string{ocispec.AnnotationTitle: title}
			m.Layers = append(m.Layers, layer)
		}
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	s := newServer(t)
	s.putBlob(t, []byte("{}"))
	blob := s.putBlob(t, []byte(random(1000)))
	good := s.putManifest(t, "good", manifestWith(blob, func(*ocispec.Manifest) {}))
	many := make([]string, maxFiles+1)
	for i := range many {
		many[i] = fmt.Sprint("file-", i)
	}
	sized := func(size int64) func(*ocispec.Manifest) { return func(m *ocispec.Manifest) { m.Layers[0].Size = size } }
	for _, c := range []struct {
		name     string
		manifest any
		kind     string
		text     string
	}{
		{"an index", ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{{
				MediaType: ocispec.MediaTypeImageManifest, Digest: good, Platform: &ocispec.Platform{OS: "linux", Architecture: "arm64"},
			}},
		}, fetch.Unsupported, "(linux/arm64)"},
		{"a chart of Helm's", manifestWith(blob, func(m *ocispec.Manifest) {
			m.ArtifactType, m.Config.MediaType = "", "application/vnd.cncf.helm.config.v1+json"
		}), fetch.Unsupported, "helm"},
		{"no files", manifestWith(blob, titled()), fetch.TooLarge, "0 files"},
		{"more files than are possible", manifestWith(blob, titled(many...)), fetch.TooLarge, "10001 files"},
		{"a file without a name", manifestWith(blob, titled("")), fetch.Invalid, "file path"},
		{"a path that leaves the folder", manifestWith(blob, titled("../../etc/passwd")), fetch.Invalid, "inside the model's folder"},
		{"a path that leaves it later", manifestWith(blob, titled("a/../../b")), fetch.Invalid, "inside the model's folder"},
		{"a path from the root", manifestWith(blob, titled("/etc/passwd")), fetch.Invalid, "inside the model's folder"},
		{"a path with a backslash", manifestWith(blob, titled(`..\b`)), fetch.Invalid, "backslashes"},
		{"a path with a line break", manifestWith(blob, titled("a\nb")), fetch.Invalid, "control characters"},
		{"two files of one name", manifestWith(blob, titled("a", "b", "a")), fetch.Invalid, "two files"},
		{"a file that is a folder", manifestWith(blob, titled("a/b", "a")), fetch.Invalid, "files below it"},
		{"a size below zero", manifestWith(blob, sized(-1)), fetch.Unsupported, "-1 bytes"},
		{"another digest", manifestWith(blob, func(m *ocispec.Manifest) {
			m.Layers[0].Digest = digest.SHA512.FromString("a")
		}), fetch.Unsupported, "sha512"},
		{"no digest", manifestWith(blob, func(m *ocispec.Manifest) { m.Layers[0].Digest = "sha256:../../x" }), fetch.Unsupported, "sha256:.."},
		{"a digest with two sizes", manifestWith(blob, func(m *ocispec.Manifest) {
			titled("a", "b")(m)
			m.Layers[1].Size++
		}), fetch.Invalid, "other sizes"},
		{"too many annotations", manifestWith(blob, func(m *ocispec.Manifest) {
			m.Annotations = map[string]string{"a": strings.Repeat("x", maxAnnotations)}
		}), fetch.TooLarge, "annotations"},
		{"a huge manifest", manifestWith(blob, func(m *ocispec.Manifest) {
			m.Annotations = map[string]string{"a": strings.Repeat("x", maxManifest)}
		}), fetch.TooLarge, "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.putManifest(t, "bad", c.manifest)
			_, _, err := list(t, fetch.Request{URL: s.host + "/box/cat:bad"})
			wantFailure(t, err, c.kind, c.text)
		})
	}
}

func TestASizeThatIsNotThatOfTheFileIsRefused(t *testing.T) {
	s := newServer(t)
	s.putBlob(t, []byte("{}"))
	blob := s.putBlob(t, []byte(random(1000)))
	for _, size := range []int64{0, 1, 999, 1001, 1 << 40} {
		s.putManifest(t, "1", manifestWith(blob, func(m *ocispec.Manifest) { m.Layers[0].Size = size }))
		folder := t.TempDir()
		if _, err := pull(t, fetch.Request{URL: s.host + "/box/cat:1"}, folder); err == nil {
			t.Errorf("%d bytes: no error", size)
		}
		if left, _ := filepath.Glob(filepath.Join(folder, "files", "*")); len(left) > 0 {
			t.Errorf("%d bytes: there is %v", size, left)
		}
	}
}

func TestCredentialsAreThoseOfDockersFile(t *testing.T) {
	s := newServer(t)
	url := "oci://" + s.host + "/box/cat:1"
	publish(t, url, map[string]string{"model.onnx": "x"})
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "ada" && password == "right" {
			return false
		}
		return status(401, "Www-Authenticate", `Basic realm="registry"`)(w, r)
	})
	config := func(host, user, password string) string {
		text, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"username": user, "password": password}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, c := range []struct{ name, text, kind string }{
		{"right", config(s.host, "ada", "right"), ""},
		{"wrong", config(s.host, "ada", "secret-of-ada"), fetch.Denied},
		{"of another registry", config("registry.example", "ada", "secret-of-ada"), fetch.Denied},
		{"none", "", fetch.Denied},
		{"no file of Docker's", `{"auths": secret-of-ada`, fetch.Denied},
	} {
		with := waits
		with.docker = t.TempDir()
		if c.text != "" {
			if err := os.WriteFile(filepath.Join(with.docker, "config.json"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := do(t, &fetch.Request{Command: fetch.List, URL: url}, with)
		if c.kind == "" && err != nil {
			t.Errorf("%s: %v", c.name, describeError(err))
		}
		if c.kind != "" {
			wantFailure(t, err, c.kind, "")
			if strings.Contains(describeError(err), "secret-of-ada") {
				t.Errorf("%s: %v has the password", c.name, err)
			}
		}
	}
}

func TestABoxWithoutAHomeFolderAsksWithoutCredentials(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("DOCKER_CONFIG", "")
	s := newServer(t)
	publish(t, "oci://"+s.host+"/box/cat:1", map[string]string{"model.onnx": "x"})
	if _, _, err := list(t, fetch.Request{URL: s.host + "/box/cat:1"}); err != nil {
		t.Error(describeError(err))
	}
}

func TestTLSNeedsAnAuthorityThatIsBelieved(t *testing.T) {
	s := &server{handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	s.Server = httptest.NewTLSServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	s.host = strings.TrimPrefix(s.URL, "https://")
	s.putBlob(t, []byte("{}"))
	s.putManifest(t, "1", manifestWith(s.putBlob(t, []byte("x")), func(*ocispec.Manifest) {}))
	_, _, err := list(t, fetch.Request{URL: s.host + "/box/cat:1"})
	wantFailure(t, err, fetch.Denied, "certificate")
	trusting := waits
	trusting.roots = x509.NewCertPool()
	trusting.roots.AddCert(s.Certificate())
	if _, err := do(t, &fetch.Request{Command: fetch.List, URL: s.host + "/box/cat:1"}, trusting); err != nil {
		t.Error(describeError(err))
	}
	plain := newServer(t)
	s.set(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, plain.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	_, err = do(t, &fetch.Request{Command: fetch.List, URL: s.host + "/box/cat:1"}, trusting)
	wantFailure(t, err, fetch.Denied, "without TLS")
}

func TestAFileThatChangesWhileItIsPublishedIsRefused(t *testing.T) {
	s := newServer(t)
	r := putOf(t, "oci://"+s.host+"/box/cat:1", map[string]string{"model.onnx": "the right bytes"})
	for _, text := range []string{"the false bytes", "short", "much longer than before"} {
		if err := os.WriteFile(filepath.Join(r.Folder, "model.onnx"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := do(t, &r, waits); err == nil {
			t.Errorf("%q: no error", text)
		}
		if _, _, err := list(t, fetch.Request{URL: r.URL}); err == nil {
			t.Errorf("%q: the tag is there", text)
		}
	}
}
