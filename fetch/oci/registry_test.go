package oci

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/edgewise-ai/edgewise/api/fetch"
	"github.com/edgewise-ai/edgewise/fetch/download"
)

// fault looks at a request before the registry does, and tells whether it has answered it.
type fault func(w http.ResponseWriter, r *http.Request) bool

// server is a registry on loopback.
type server struct {
	*httptest.Server
	handler http.Handler
	host    string

	mu       sync.Mutex // guards what follows
	fault    fault
	requests []string // method, path and range of each
}

func newServer(t *testing.T, options ...registry.Option) *server {
	t.Helper()
	s := &server{handler: registry.New(append(options, registry.Logger(log.New(io.Discard, "", 0)))...)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	s.host = strings.TrimPrefix(s.URL, "http://")
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range")))
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
		w.Header().Set("Accept-Ranges", "bytes") // as other registries say it
	}
	s.handler.ServeHTTP(w, r)
}

func (s *server) set(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// seen returns the requests since the last call that contain all of parts.
func (s *server) seen(parts ...string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, request := range s.requests {
		if containsAll(request, parts) {
			list = append(list, request)
		}
	}
	s.requests = nil
	return list
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// put sends bytes past all clients.
func (s *server) put(t *testing.T, path, contentType string, text []byte) {
	t.Helper()
	method := http.MethodPut
	if strings.Contains(path, "/blobs/") {
		method = http.MethodPost
	}
	r := httptest.NewRequest(method, path, bytes.NewReader(text))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}

func (s *server) putBlob(t *testing.T, text []byte) ocispec.Descriptor {
	t.Helper()
	d := descriptorOf(fileType, text)
	s.put(t, "/v2/box/cat/blobs/uploads/?digest="+d.Digest.String(), "application/octet-stream", text)
	return d
}

// putManifest stores a manifest under a tag, and returns its digest.
func (s *server) putManifest(t *testing.T, tag string, manifest any) digest.Digest {
	t.Helper()
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	mediaType := ocispec.MediaTypeImageManifest
	if _, ok := manifest.(ocispec.Index); ok {
		mediaType = ocispec.MediaTypeImageIndex
	}
	s.put(t, "/v2/box/cat/manifests/"+tag, mediaType, text)
	return digest.FromBytes(text)
}

// waits are short, since some registries of the tests never answer.
var waits = bounds{silent: 300 * time.Millisecond, longest: 2 * time.Second}

// do answers a request as the program does.
func do(t *testing.T, r *fetch.Request, b bounds) (replies []fetch.Reply, err error) {
	t.Helper()
	in, requests := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- fetch.Serve(context.Background(), in, out, func(ctx context.Context, r *fetch.Request, to fetch.Replies) error {
			return answer(ctx, r, to, b)
		})
		_ = out.Close()
	}()
	err = fetch.NewClient(requests, answers).Do(r, func(reply *fetch.Reply) error {
		replies = append(replies, *reply)
		return nil
	})
	_ = requests.Close()
	if serving := <-ended; serving != nil {
		t.Fatal(serving)
	}
	return replies, err
}

func answer(ctx context.Context, r *fetch.Request, to fetch.Replies, b bounds) error {
	p, err := open(ctx, r.URL, r.Credentials, b)
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	switch r.Command {
	case fetch.List:
		p.Describe(func(a fetch.Artifact) error { return to.Send(fetch.Reply{Artifact: &a}) })
		return p.List(ctx, func(list []fetch.Entry) error { return to.Send(fetch.Reply{Entries: list}) })
	case fetch.Get:
		return download.Get(ctx, p, r, to)
	}
	d, err := p.Put(ctx, r, func(f fetch.Fetched) error { return to.Send(fetch.Reply{File: &f}) })
	if err != nil {
		return err
	}
	return to.Send(fetch.Reply{Digest: d})
}

// list returns what a URL names.
func list(t *testing.T, r fetch.Request) (artifacts []fetch.Artifact, entries []fetch.Entry, err error) {
	t.Helper()
	r.Command = fetch.List
	replies, err := do(t, &r, waits)
	for _, reply := range replies {
		entries = append(entries, reply.Entries...)
		if reply.Artifact != nil {
			artifacts = append(artifacts, *reply.Artifact)
		}
	}
	return artifacts, entries, err
}

// pull lists and gets what a URL names into a folder, and returns the contents of the files by their names.
func pull(t *testing.T, r fetch.Request, folder string) (map[string]string, error) {
	t.Helper()
	_, entries, err := list(t, r)
	if err != nil {
		return nil, err
	}
	r.Command, r.Folder, r.Files = fetch.Get, folder, entries
	replies, err := do(t, &r, waits)
	got := map[string]string{}
	for _, reply := range replies {
		if reply.Failure != nil {
			err = errors.Join(err, reply.Failure)
		}
		if f := reply.File; f != nil {
			text, reading := os.ReadFile(filepath.Join(folder, "files", f.SHA256))
			err = errors.Join(err, reading)
			got[f.Name] = string(text)
		}
	}
	return got, err
}

// putOf writes files into a folder, and makes the request that publishes them.
func putOf(t *testing.T, url string, files map[string]string) fetch.Request {
	t.Helper()
	r := fetch.Request{
		Command: fetch.Put, URL: url, Folder: t.TempDir(), Config: json.RawMessage(`{"name":"cat"}`),
		Annotations: map[string]string{ocispec.AnnotationCreated: "2026-11-23T20:00:00Z"},
	}
	for name, text := range maps.All(files) {
		path := filepath.Join(r.Folder, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(text))
		r.Files = append(r.Files, fetch.Entry{Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])})
	}
	return r
}

// publish publishes files, and returns the digest of the artifact.
func publish(t *testing.T, url string, files map[string]string) string {
	t.Helper()
	r := putOf(t, url, files)
	replies, err := do(t, &r, waits)
	if err != nil {
		t.Fatal(err)
	}
	return replies[len(replies)-2].Digest
}

// random returns bytes that no registry can guess.
func random(n int) string {
	text := make([]byte, n)
	_, _ = rand.Read(text)
	return string(text)
}

// wantFailure fails the test unless err is a failure of a kind whose message contains text.
func wantFailure(t *testing.T, err error, kind, text string) {
	t.Helper()
	failure, ok := errors.AsType[*fetch.Failure](err)
	if !ok || failure.Kind != kind || !strings.Contains(failure.Message, text) {
		t.Errorf("got %v, want a failure of kind %s with %q", describeError(err), kind, text)
	}
}

func describeError(err error) string {
	if failure, ok := errors.AsType[*fetch.Failure](err); ok {
		return fmt.Sprintf("%s: %s", failure.Kind, failure.Error())
	}
	return fmt.Sprint(err)
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
